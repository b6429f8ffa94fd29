#include "core/estimate/quick/quick_pipeline.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/base/index.hpp"

namespace rehearse {

int QuickPipeline::kind_of_stage(int stage) const {
  if (!costs_->mesh->alike()) return stage;
  if (stage == 0) return 0;
  return stage + 1 == stages_ ? static_cast<int>(costs_->mesh->stages().size()) - 1 : 1;
}

/// Which of its stage's chunks the pass is of; fewer chunks have the last of all.
int QuickPipeline::place_of(const Visit& v) const { return v.place + 1 == places_ ? costs_->places - 1 : v.place; }

/// Whether messages of a Visit::channel go to the next stage, and not to the one before.
bool goes_on(int channel) { return channel == 0 || channel == 3; }

/// From `stage` to the next or to the one before; a shorter pipeline has the ends of the full one.
const Transfer& QuickPipeline::message(int channel, int stage) const {
  const MeshMessages& messages = *nth(costs_->messages, channel & 1);
  const bool on = goes_on(channel);
  const auto& all = on ? messages.forward : messages.backward;
  const int full = static_cast<int>(all.size());
  const bool end = on ? stage + 1 == stages_ : stage == 0;
  if (stages_ < full && end) stage = on ? full - 1 : 0;
  return nth(all, stage);
}

void QuickPipeline::wait_for_input(const Visit& v, const QuickCosts::Pass& pass, double arrived, QuickLane& lane) {
  if (pass.plain && !costs_->blocking)
    lane.idle(arrived, channel_of(v).needs, lane.exposed_pp);
  else
    wait_long(v, pass, arrived, lane);
}

/// Blocking messages, slices to be gathered and copies of input.
void QuickPipeline::wait_long(const Visit& v, const QuickCosts::Pass& pass, double arrived, QuickLane& lane) {
  lane.idle(lane.held, lane.held - lane.free, lane.exposed_pp);
  if (v.in >= 0) {
    const bool in_line = pass.unpack > 0 && pass.pass->unpacks_in_line;
    const double unpacked = in_line ? std::max(arrived, lane.free - lane.trailing) + pass.unpack : 0.0;
    lane.idle(arrived, channel_of(v).needs, lane.exposed_pp);
    lane.idle(unpacked, pass.unpack, lane.exposed_tp);
  }
  for (const InputCopy& copy : pass.pass->inputs) {
    lane.input_done += copy.seconds;
    lane.idle(lane.input_done - copy.offset, copy.seconds, lane.exposed_copy);
  }
}

/// What the step before's tail still does for this chunk's parameters.
void QuickPipeline::first_forward(const Visit& v, const ChunkPass& pass, QuickLane& lane) const {
  if (before_->empty()) return;
  const int kind = kind_of_stage(v.stage), all = nth(costs_->passes, kPassKinds * v.content).pass->blocks();
  const MeshStage& stage = nth(costs_->mesh->stages(), kind);
  const int place = place_of(v), chunk = costs_->mesh->one_chunk() ? 0 : place;
  const int base = costs_->mesh->one_chunk() ? costs_->layout->blocks_before(stage.role, place, 0) : 0;
  for (const MeshNeed& need : stage.needs) {
    if (need.chunk != chunk || need.blocks < base || need.blocks >= base + all) continue;
    const double until = nth(nth((*before_), kind), need.operation) - nth(pass.offsets, need.blocks - base);
    lane.idle(until, until - lane.free, lane.exposed_dp);
  }
}

/// The share of their rate that kernels of `work` lose beside `load`; most calls are like the one before.
double QuickPipeline::lost_beside(const ComputeWork& work, const Interference& load) {
  if (beside_.work != &work || beside_.load.sm_share != load.sm_share || beside_.load.hbm_share != load.hbm_share)
    beside_ = {&work, load, 1 - overlap_rate(work.sm_sensitivity, work.hbm_sensitivity, load)};
  return beside_.lost;
}

/// The pass after which a chunk's gradients are final, with the reductions it sets off. Where no call runs when it
/// begins, all that follows moves with that moment, and with what kernels lose beside a message that has left before
/// the first reduction begins.
void QuickPipeline::last_backward(const Visit& v, const QuickCosts::Pass& pass, QuickLane& lane) {
  const double begin = lane.free, sending = std::max(0.0, lane.sent_end - begin);
  if (lane.sides_end > begin) {
    reduce_behind(v, pass, lane);
    return;
  }
  LastBackward& known = nth(last_backwards_, kind_of_stage(v.stage) * costs_->places + place_of(v));
  QuickLane::Side& side = nth(lane.sides, costs_->mesh->reductions());
  const double lost = sending * lane.sent_lost;
  if (known.pass == pass.pass && known.seconds == pass.seconds && sending <= known.until_call) {
    lane.slowed += known.slowed + lost;
    lane.free = begin + known.lasts + lost;
    if (!known.calls) return;
    side = known.side;
    side.free += begin + lost;
    lane.sides_end = side.free;
    return;
  }
  const double slowed = lane.slowed;
  known.until_call = reduce_behind(v, pass, lane);
  known.pass = sending <= known.until_call ? pass.pass : nullptr;
  known.seconds = pass.seconds;
  known.slowed = lane.slowed - slowed - lost;
  known.lasts = lane.free - begin - lost;
  known.calls = lane.sides_end > begin;
  known.side = side;
  known.side.free -= begin + lost;
}

/// Plays such a pass; returns its seconds up to the first of the reductions.
double QuickPipeline::reduce_behind(const Visit& v, const QuickCosts::Pass& pass, QuickLane& lane) {
  const ChunkPass& p = *pass.pass;
  const MeshStage& stage = nth(costs_->mesh->stages(), kind_of_stage(v.stage));
  const int place = place_of(v), chunk = costs_->mesh->one_chunk() ? 0 : place;
  const int base = costs_->mesh->one_chunk() ? costs_->layout->blocks_before(stage.role, place, 1) : 0;
  double done = 0, first = pass.seconds;
  const std::vector<MeshCall>& calls = stage.calls;
  const int end = base + nth(costs_->passes, kPassKinds * v.content).pass->blocks();
  // Those of one chunk are in the order of their blocks.
  auto at = std::partition_point(calls.begin(), calls.end(),
                                 [&](const MeshCall& c) { return costs_->mesh->one_chunk() && c.blocks <= base; });
  for (; at != calls.end() && (at->blocks <= end || !costs_->mesh->one_chunk()); ++at) {
    const MeshCall& call = *at;
    if (call.chunk != chunk || call.blocks > end) continue;
    const double offset = nth(p.offsets, call.blocks - base);
    lane.compute(offset - done, 0);
    first = std::min(first, offset);
    done = offset;
    QuickLane::Side& side = nth(lane.sides, costs_->mesh->reductions());
    side.free = std::max(lane.free, side.free) + call.seconds;
    side.lost = lost_beside(p.work, call.load);
    side.stretch = side.lost / (1 - side.lost);
    side.load = call.load;
    lane.sides_end = std::max(lane.sides_end, side.free);
  }
  lane.compute(pass.seconds - done, 0);
  return first;
}

/// What kernels lose beside the message that they need: of its time, what they did not wait for.
inline double QuickPipeline::slowed_by_message(const Channel& channel, double arrived, const QuickLane& lane) {
  const double beside = channel.needs - channel.waits - std::max(0.0, arrived - channel.waits - lane.free);
  return beside > 0 ? beside * channel.needs_lost : 0.0;
}

void QuickPipeline::set_channels() {
  for (int d = 0; d < channels_each_; ++d) {
    const Transfer* last = nullptr;
    double lost = 0;
    for (int s = 0; s < stages_; ++s) {
      const int content = costs_->layout->by_kind() ? static_cast<int>(ChunkKind::middle) : s;
      const ComputeWork& work = nth(costs_->passes, kPassKinds * content + (d & 1)).pass->work;
      const Transfer& t = message(d, s);
      if (last == nullptr || !costs_->layout->by_kind() || t.load.sm_share != last->load.sm_share ||
          t.load.hbm_share != last->load.hbm_share)
        lost = 1 - overlap_rate(work.sm_sensitivity, work.hbm_sensitivity, t.load);
      last = &t;
      const int to = goes_on(d) ? (s + 1) % stages_ : (s + stages_ - 1) % stages_;
      Channel& from = nth(channels_, channels_each_ * s + d);
      Channel& there = nth(channels_, channels_each_ * to + d);
      from.sends = t.seconds;
      from.sends_lost = lost;
      there.needs = t.seconds;
      there.waits = t.wait;
      there.needs_lost = lost;
    }
  }
}

/// A message leaves after `left` and after those before it; returns when it is there.
inline double QuickPipeline::leave(double left, Channel& channel, QuickLane& lane) {
  channel.free = std::max(left, channel.free) + channel.sends;
  lane.sent_end = channel.free;
  lane.sent_lost = channel.sends_lost;
  return channel.free;
}

void QuickPipeline::play_all(const std::vector<Visit>& visits) {
  if (costs_->calls.empty() && costs_->pairs == nullptr)
    play_visits<false>(visits);
  else
    play_visits<true>(visits);
}

/// `kCalls`: passes may have calls of their own or come in pairs.
template <bool kCalls>
void QuickPipeline::play_visits(const std::vector<Visit>& visits) {
  const QuickCosts& costs = *costs_;
  const QuickCosts::Pass* const passes = costs.passes.data();
  const bool blocking = costs.blocking;
  double* const arrival = arrival_.data();
  QuickLane* const lanes = lanes_.data();
  Channel* const channels = channels_.data();
  const Visit* const end = visits.data() + visits.size();
  const int each = channels_each_;
  for (const Visit* at = visits.data(); at != end; ++at) {
    const Visit& v = *at;
    QuickLane& lane = lanes[v.stage];
    Channel& channel = channels[each * v.stage + v.channel];
    const QuickCosts::Pass* pass = passes + (kPassKinds * v.content + v.pass);
    if constexpr (kCalls) {
      if (costs.pairs != nullptr && at + 1 != end && (at[1].flags & Visit::kPaired) != 0) {
        play_pair(v, *++at, lane);
        continue;
      }
      if (costs.several && (v.flags & Visit::kFirstBackward) != 0) pass += kPasses;
    }
    const double arrived = v.in >= 0 ? arrival[v.in] : 0.0;
    const double slowed = v.in >= 0 ? slowed_by_message(channel, arrived, lane) : 0.0;
    if (kCalls && !costs.calls.empty()) {
      if ((v.flags & (Visit::kFirstForward | Visit::kFirstBackward | Visit::kLast)) == 0)
        repeat_calls(v, *pass, arrived, slowed, lane);
      else
        with_calls(v, *pass, arrived, slowed, lane);
      follow(v, *pass, channel, lane);
    } else if (pass->plain && !blocking && (v.flags & (Visit::kFirstForward | Visit::kLastBackward)) == 0) {
      lane.idle(arrived, channel.needs, lane.exposed_pp);
      lane.compute(pass->seconds, slowed);
      if (v.out >= 0) arrival[v.out] = leave(lane.free, channel, lane);
    } else {
      wait_for_input(v, *pass, arrived, lane);
      if ((v.flags & (Visit::kFirstForward | Visit::kLastBackward)) == 0)
        lane.compute(pass->seconds, slowed);
      else
        first_or_last(v, *pass, slowed, lane);
      follow(v, *pass, channel, lane);
    }
  }
}

/// A chunk's first forward, which waits for the step before, or its last backward, which sets off reductions.
void QuickPipeline::first_or_last(const Visit& v, const QuickCosts::Pass& pass, double slowed, QuickLane& lane) {
  lane.slowed += slowed;
  lane.free += slowed;
  if ((v.flags & Visit::kFirstForward) != 0) first_forward(v, *pass.pass, lane);
  if ((v.flags & Visit::kLastBackward) != 0)
    last_backward(v, pass, lane);
  else
    lane.compute(pass.seconds, 0);
}

/// What a pass leaves: its trailing kernels, its message.
void QuickPipeline::follow(const Visit& v, const QuickCosts::Pass& pass, Channel& channel, QuickLane& lane) {
  if (!pass.plain) {
    const ComputeWork& work = pass.pass->work;
    lane.trailing = work.trailing < work.seconds ? work.trailing + pass.prepare : lane.trailing + pass.seconds;
  }
  if (v.out >= 0) send(v, pass, lane.free, channel, lane);
}

inline void QuickPipeline::send(const Visit& v, const QuickCosts::Pass& pass, double left, Channel& channel,
                                QuickLane& lane) {
  const double there = leave(left, channel, lane);
  if (costs_->blocking) lane.held = there;
  nth(arrival_, v.out) = there + (pass.pass->unpacks_in_line ? 0.0 : pass.unpack);
}

/// Begins when what either of them needs is there, and ends for both at once.
void QuickPipeline::play_pair(const Visit& ahead, const Visit& back, QuickLane& lane) {
  const bool fresh = (back.flags & Visit::kFirstBackward) != 0;
  const ChunkPair& pair = costs_->pairs->of(ahead.content, back.content, fresh);
  const QuickCosts::Pass& forward = nth(costs_->passes, kPassKinds * ahead.content + ahead.pass);
  const QuickCosts::Pass& backward = nth(costs_->passes, kPassKinds * back.content + back.pass);
  double slowed = 0;
  lane.idle(lane.held, lane.held - lane.free, lane.exposed_pp);
  for (const auto& [v, pass] : {std::pair{&ahead, &forward}, {&back, &backward}}) {
    if (v->in < 0) continue;
    const Channel& channel = channel_of(*v);
    const double arrived = nth(arrival_, v->in), begin = nth(pair.begin, v->direction());
    slowed += slowed_by_message(channel, arrived, lane);
    const bool in_line = pass->unpack > 0 && pass->pass->unpacks_in_line;
    const double unpacked = in_line ? std::max(arrived, lane.free - lane.trailing) + pass->unpack : 0.0;
    lane.idle(arrived - begin, channel.needs, lane.exposed_pp);
    lane.idle(unpacked - begin, pass->unpack, lane.exposed_tp);
  }
  QuickCosts::Pass both = backward;
  both.pass = &pair.pass;
  both.prepare = forward.prepare + backward.prepare;
  both.unpack = 0;
  both.seconds = pair.pass.work.seconds + both.prepare;
  both.plain = pair.pass.inputs.empty();
  if (!costs_->calls.empty()) {
    with_calls(back, both, 0, slowed, lane, &ahead);
  } else {
    wait_for_input(back, both, 0, lane);
    lane.slowed += slowed;
    lane.free += slowed;
    if ((ahead.flags & Visit::kFirstForward) != 0) first_forward(ahead, pair.pass, lane);
    if ((back.flags & Visit::kLastBackward) != 0)
      last_backward(back, both, lane);
    else
      lane.compute(both.seconds, 0);
  }
  lane.trailing = both.prepare;
  const double left = lane.free - (both.prepare > 0 ? 0.0 : pair.early);
  for (const auto& [v, pass] : {std::pair{&ahead, &forward}, {&back, &backward}})
    if (v->out >= 0) send(*v, *pass, left, channel_of(*v), lane);
}

void QuickPipeline::begin(int messages, const PipelineShape& shape, const QuickCosts& costs, const TailEnds& before,
                          const std::vector<QuickLane>& lanes) {
  costs_ = &costs;
  before_ = &before;
  beside_ = {};
  const int stages = stages_ = shape.stages;
  places_ = shape.virtual_stages * costs.layout->copies();
  channels_each_ = costs.back ? 4 : 2;
  lanes_.resize(static_cast<std::size_t>(stages));
  for (int s = 0; s < stages; ++s) nth(lanes_, s) = nth(lanes, kind_of_stage(s));
  channels_.assign(static_cast<std::size_t>(channels_each_) * static_cast<std::size_t>(stages), {});
  if (stages > 1) set_channels();
  if (number_ != costs.number) {
    last_backwards_.assign(costs.mesh->stages().size() * static_cast<std::size_t>(costs.places), {});
    moves_.resize(std::max(moves_.size(), costs.calls.size() / 3));
    number_ = costs.number;
  }
  if (arrival_.size() < static_cast<std::size_t>(messages)) arrival_.resize(static_cast<std::size_t>(messages));
}

void QuickPipeline::end(std::vector<QuickLane>& lanes) const {
  for (int s = 0; s < stages_; ++s) {
    const int kind = kind_of_stage(s);
    if (s <= 1 || s + 1 == stages_ || kind == s) nth(lanes, kind) = nth(lanes_, s);
  }
}

void QuickPipeline::play(const QuickOrder& order, const PipelineShape& shape, const QuickCosts& costs,
                         const TailEnds& before, std::vector<QuickLane>& lanes) {
  begin(order.messages, shape, costs, before, lanes);
  play_all(order.visits);
  end(lanes);
}

void QuickPipeline::play(const ForkedOrder& orders, const PipelineShape& shape, const QuickCosts& costs,
                         const TailEnds& before, std::vector<QuickLane>& near, std::vector<QuickLane>& lanes) {
  begin(orders.messages, shape, costs, before, lanes);
  play_all(orders.both);
  forked_lanes_ = lanes_;
  forked_channels_ = channels_;
  play_all(orders.near);
  near = lanes;
  end(near);
  lanes_.swap(forked_lanes_);
  channels_.swap(forked_channels_);
  play_all(orders.far);
  end(lanes);
}

}  // namespace rehearse
