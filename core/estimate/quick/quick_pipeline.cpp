#include "core/estimate/quick/quick_pipeline.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "core/base/index.hpp"

namespace rehearse {

namespace {

/// The compute stream idles until `until`; of the gap at most `moving` counts as `exposed`.
[[gnu::always_inline]] inline void idle(QuickLane& lane, double until, double moving, double& exposed) {
  const double gap = until - lane.free;
  if (gap <= 0) return;
  exposed += std::min(std::max(moving, 0.0), gap);
  lane.free = until;
}

/// `seconds` of kernels, slowed by what runs beside; `slowed` more are lost already.
[[gnu::always_inline]] inline void compute(QuickLane& lane, double seconds, double slowed) {
  const double begin = lane.free;
  if (lane.sent_end > begin) slowed += std::min(lane.sent_end - begin, seconds) * lane.sent_lost;
  if (lane.sides_end > begin)
    for (const QuickLane::Side& side : lane.sides)
      if (side.free > begin) slowed += std::min((side.free - begin) * side.lost, seconds * side.stretch);
  lane.slowed += slowed;
  lane.free = begin + seconds + slowed;
}

}  // namespace

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
    idle(lane, arrived, channel_of(v).needs, lane.exposed_pp);
  else
    wait_long(v, pass, arrived, lane);
}

/// Blocking messages, slices to be gathered and copies of input.
void QuickPipeline::wait_long(const Visit& v, const QuickCosts::Pass& pass, double arrived, QuickLane& lane) {
  idle(lane, lane.held, lane.held - lane.free, lane.exposed_pp);
  if (v.in >= 0) {
    const bool in_line = pass.unpack > 0 && pass.pass->unpacks_in_line;
    const double unpacked = in_line ? std::max(arrived, lane.free - lane.trailing) + pass.unpack : 0.0;
    idle(lane, arrived, channel_of(v).needs, lane.exposed_pp);
    idle(lane, unpacked, pass.unpack, lane.exposed_tp);
  }
  for (const InputCopy& copy : pass.pass->inputs) {
    lane.input_done += copy.seconds;
    idle(lane, lane.input_done - copy.offset, copy.seconds, lane.exposed_copy);
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
    idle(lane, until, until - lane.free, lane.exposed_dp);
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
    compute(lane, offset - done, 0);
    first = std::min(first, offset);
    done = offset;
    QuickLane::Side& side = nth(lane.sides, costs_->mesh->reductions());
    side.free = std::max(lane.free, side.free) + call.seconds;
    side.lost = lost_beside(p.work, call.load);
    side.stretch = side.lost / (1 - side.lost);
    side.load = call.load;
    lane.sides_end = std::max(lane.sides_end, side.free);
  }
  compute(lane, pass.seconds - done, 0);
  return first;
}

/// One call on its streams, not before `from`; returns its end. What it takes from kernels is that of all that waits on
/// the stream.
double QuickPipeline::issue(const PassCalls::Timed& call, const CallTask* tasks, const ComputeWork& work, double from,
                            QuickLane& lane) {
  double all = from;
  std::array<double, kMostCallTasks> ends;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  for (std::uint32_t i = 0; i < call.task_count; ++i) {
    const CallTask& t = tasks[i];
    double at = from;
    for (std::uint32_t left = t.after; left != 0; left &= left - 1)
      at = std::max(at, nth(ends, std::countr_zero(left)));
    if (t.side < 0) {
      idle(lane, at, at - lane.free, lane.exposed_dp);
      compute(lane, t.seconds, 0);
      lane.casts += t.seconds;
      ends[i] = lane.free;
    } else {
      const double own = lost_beside(work, t.load);
      QuickLane::Side& side = nth(lane.sides, t.side);
      if (const double waiting = side.free - lane.free; waiting <= 0 || side.lost == own)
        side.lost = own;
      else
        side.lost = (waiting * side.lost + t.seconds * own) / (waiting + t.seconds);
      side.stretch = side.lost / (1 - side.lost);
      side.load = t.load;
      ends[i] = side.free = std::max(at, side.free) + t.seconds;
      lane.sides_end = std::max(lane.sides_end, side.free);
    }
    all = std::max(all, ends[i]);
  }
  if (call.needed >= 0 && all > nth(whole_, call.needed)) {
    nth(whole_, call.needed) = all;
    nth(whole_by_copy_, call.needed) = call.copies ? 1 : 0;
  }
  if (call.holds && all > lane.gate) {
    lane.gate = all;
    lane.gate_of_copy = call.copies;
  }
  return all;
}

const PassCalls& QuickPipeline::calls_of(const Visit& v) const {
  const bool first = (v.flags & (Visit::kFirstForward | Visit::kFirstBackward)) != 0;
  return costs_->calls_of(kind_of_stage(v.stage), place_of(v), v.pass, first, (v.flags & Visit::kLast) != 0);
}

/// A pass block by block, with the calls between; `ahead` is interleaved with it.
void QuickPipeline::with_calls(const Visit& v, const QuickCosts::Pass& pass, double arrived, double slowed,
                               QuickLane& lane, const Visit* ahead) {
  const ChunkPass& p = *pass.pass;
  const int kind = kind_of_stage(v.stage), blocks = p.blocks();
  const bool first_forward = (v.flags & Visit::kFirstForward) != 0;
  static const PassCalls kNone;
  const std::array lists{&calls_of(v), ahead == nullptr ? &kNone : &calls_of(*ahead)};
  if (lists[0]->timed.empty() && lists[1]->timed.empty() && lane.gate <= lane.free && !first_forward) {
    wait_for_input(v, pass, arrived, lane);
    compute(lane, pass.seconds, slowed);
    return;
  }
  const double begin = lane.free, early = lane.before_last;
  block_ends_.assign(static_cast<std::size_t>(blocks), 0.0);
  whole_.assign(static_cast<std::size_t>(blocks), 0.0);
  whole_by_copy_.assign(static_cast<std::size_t>(blocks), 0);
  for (std::vector<double>& ends : call_ends_) ends.clear();
  std::array at{lists[0]->timed.begin(), lists[1]->timed.begin()};
  const auto issue_until = [&](int block) {
    for (std::size_t list = 0; list < lists.size(); ++list) {
      for (auto& call = at[list]; call != lists[list]->timed.end() && call->at <= block; ++call) {
        double from = call->after >= 0                  ? nth(block_ends_, call->after)
                      : call->after == PassCall::kBegin ? begin
                      : call->after == PassCall::kEarly ? early
                                                        : 0;
        if (call->need >= 0 && !before_->empty()) from = std::max(from, nth(nth(*before_, kind), call->need));
        if (call->gated) from = std::max(from, lane.gate);
        if (call->follows >= 0) from = std::max(from, nth(call_ends_[list], call->follows));
        call_ends_[list].push_back(issue(*call, lists[list]->tasks.data() + call->first_task, p.work, from, lane));
      }
    }
  };
  for (int k = 0; k < blocks; ++k) {
    issue_until(k);
    if (k == 0) {
      wait_for_input(v, pass, arrived, lane);
      lane.slowed += slowed;
      lane.free += slowed;
      if (first_forward) this->first_forward(v, p, lane);
    }
    const bool gated = lane.gate > nth(whole_, k);
    const double until = gated ? lane.gate : nth(whole_, k);
    const bool of_copy = gated ? lane.gate_of_copy : nth(whole_by_copy_, k) != 0;
    idle(lane, until, until - lane.free, of_copy ? lane.exposed_copy : lane.exposed_dp);
    lane.before_last = lane.free;
    compute(lane, nth(p.seconds, k), 0);
    nth(block_ends_, k) = lane.free;
  }
  issue_until(blocks);
  compute(lane, pass.prepare, 0);
}

namespace {

/// The state of `lane` in which a pass begins, as far as the pass may ask for it.
[[gnu::always_inline]] inline PassState state_of(const QuickLane& lane, const PassCalls& calls, double needs,
                                                 double arrived, double slowed) {
  const double begin = lane.free;
  PassState out;
  out.needs = needs;
  out.arrived = std::max(arrived - begin, 0.0);
  out.slowed = slowed;
  out.gate = std::max(lane.gate - begin, 0.0);
  out.gate_of_copy = lane.gate > begin && lane.gate_of_copy;
  out.before_last = calls.asks_early ? lane.before_last - begin : 0.0;
  out.sent_end = std::max(lane.sent_end - begin, 0.0);
  out.sent_lost = lane.sent_end > begin ? lane.sent_lost : 0.0;
  for (std::size_t i = 0; i < lane.sides.size(); ++i) {
    const QuickLane::Side& side = lane.sides[i];
    const bool busy = side.free > begin;
    // When an idle one became so matters to calls that may begin before the pass.
    out.free[i] = busy || (calls.early >> i & 1U) != 0 ? side.free - begin : 0.0;
    out.lost[i] = busy ? side.lost : 0.0;
  }
  return out;
}

/// To rounding, of moments as late as `at`.
[[gnu::always_inline]] inline bool alike(const PassState& a, const PassState& b, double at) {
  const double close = 1e-13 * at;
  double apart = std::abs(a.arrived - b.arrived);
  const auto look = [&apart](double x, double y) { apart = std::max(apart, std::abs(x - y)); };
  look(a.slowed, b.slowed);
  look(a.gate, b.gate);
  look(a.before_last, b.before_last);
  look(a.sent_end, b.sent_end);
  double lost = std::abs(a.sent_lost - b.sent_lost);
  for (std::size_t i = 0; i < a.free.size(); ++i) {
    look(a.free[i], b.free[i]);
    lost = std::max(lost, std::abs(a.lost[i] - b.lost[i]));
  }
  return apart <= close && lost <= 1e-12 && a.needs == b.needs && a.gate_of_copy == b.gate_of_copy;
}

}  // namespace

/// A pass between the first and the last of its kind, as it was played from the same state where it was.
void QuickPipeline::repeat_calls(const Visit& v, const QuickCosts::Pass& pass, double arrived, double slowed,
                                 QuickLane& lane) {
  const int kind = kind_of_stage(v.stage), place = place_of(v);
  const PassCalls& calls = costs_->calls_of(kind, place, v.pass, false, false);
  if (!pass.plain || costs_->blocking || calls.asks_before || calls.timed.empty())
    return with_calls(v, pass, arrived, slowed, lane);
  PassMove& known = nth(moves_, (kind * costs_->places + place) * kPasses + v.pass);
  const PassState state = state_of(lane, calls, channel_of(v).needs, arrived, slowed);
  const double begin = lane.free;
  if (known.number == costs_->number && alike(known.from, state, begin)) {
    const QuickLane& after = known.after;
    lane.free = begin + after.free;
    lane.slowed += after.slowed;
    lane.casts += after.casts;
    lane.exposed_pp += after.exposed_pp;
    lane.exposed_tp += after.exposed_tp;
    lane.exposed_dp += after.exposed_dp;
    lane.exposed_copy += after.exposed_copy;
    lane.before_last = begin + after.before_last;
    if (known.gated) {
      lane.gate = begin + after.gate;
      lane.gate_of_copy = after.gate_of_copy;
    }
    for (unsigned left = calls.sides; left != 0; left &= left - 1) {
      const int side = std::countr_zero(left);
      QuickLane::Side& to = nth(lane.sides, side);
      to = nth(after.sides, side);
      to.free += begin;
      lane.sides_end = std::max(lane.sides_end, to.free);
    }
    return;
  }
  const QuickLane before = lane;
  with_calls(v, pass, arrived, slowed, lane);
  known.number = costs_->number;
  known.from = state;
  known.gated = lane.gate != before.gate;
  QuickLane& after = known.after = lane;
  after.free -= begin;
  after.slowed -= before.slowed;
  after.casts -= before.casts;
  after.exposed_pp -= before.exposed_pp;
  after.exposed_tp -= before.exposed_tp;
  after.exposed_dp -= before.exposed_dp;
  after.exposed_copy -= before.exposed_copy;
  after.before_last -= begin;
  after.gate -= begin;
  for (QuickLane::Side& side : after.sides) side.free -= begin;
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
      idle(lane, arrived, channel.needs, lane.exposed_pp);
      compute(lane, pass->seconds, slowed);
      if (v.out >= 0) arrival[v.out] = leave(lane.free, channel, lane);
    } else {
      wait_for_input(v, *pass, arrived, lane);
      if ((v.flags & (Visit::kFirstForward | Visit::kLastBackward)) == 0)
        compute(lane, pass->seconds, slowed);
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
    compute(lane, pass.seconds, 0);
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
  idle(lane, lane.held, lane.held - lane.free, lane.exposed_pp);
  for (const auto& [v, pass] : {std::pair{&ahead, &forward}, {&back, &backward}}) {
    if (v->in < 0) continue;
    const Channel& channel = channel_of(*v);
    const double arrived = nth(arrival_, v->in), begin = nth(pair.begin, v->direction());
    slowed += slowed_by_message(channel, arrived, lane);
    const bool in_line = pass->unpack > 0 && pass->pass->unpacks_in_line;
    const double unpacked = in_line ? std::max(arrived, lane.free - lane.trailing) + pass->unpack : 0.0;
    idle(lane, arrived - begin, channel.needs, lane.exposed_pp);
    idle(lane, unpacked - begin, pass->unpack, lane.exposed_tp);
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
      compute(lane, both.seconds, 0);
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
