#include "core/estimate/quick/quick_pipeline.hpp"

#include <algorithm>
#include <array>
#include <bit>
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
  if (lane.dp_free > begin) slowed += std::min((lane.dp_free - begin) * lane.dp_lost, seconds * lane.dp_stretch);
  if (lane.copies_free > begin)
    slowed += std::min((lane.copies_free - begin) * lane.copies_lost, seconds * lane.copies_stretch);
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
int QuickPipeline::chunk_of(const Visit& v) const {
  const int chunk = v.chunk / stages_;
  return chunk + 1 == chunks_ ? costs_->virtual_stages - 1 : chunk;
}

/// From `stage` to the next or, backward, to the one before; a shorter pipeline has the ends of the full one.
const Transfer& QuickPipeline::message(int direction, int stage) const {
  const MeshMessages& messages = *nth(costs_->messages, direction);
  const auto& all = direction == 0 ? messages.forward : messages.backward;
  const int full = static_cast<int>(all.size());
  const bool end = direction == 0 ? stage + 1 == stages_ : stage == 0;
  if (stages_ < full && end) stage = direction == 0 ? full - 1 : 0;
  return nth(all, stage);
}

void QuickPipeline::wait_for_input(const Visit& v, const QuickCosts::Pass& pass, double arrived,
                                   QuickLane& lane) const {
  if (pass.plain && !costs_->blocking)
    idle(lane, arrived, channels_[2U * v.stage + v.direction].needs, lane.exposed_pp);
  else
    wait_long(v, pass, arrived, lane);
}

/// Blocking messages, slices to be gathered and copies of input.
void QuickPipeline::wait_long(const Visit& v, const QuickCosts::Pass& pass, double arrived, QuickLane& lane) const {
  idle(lane, lane.held, lane.held - lane.free, lane.exposed_pp);
  if (v.in >= 0) {
    const bool in_line = pass.unpack > 0 && pass.pass->unpacks_in_line;
    const double unpacked = in_line ? std::max(arrived, lane.free - lane.trailing) + pass.unpack : 0.0;
    idle(lane, arrived, channels_[2U * v.stage + v.direction].needs, lane.exposed_pp);
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
  const int kind = kind_of_stage(v.stage), all = nth(costs_->passes, 2 * v.content).pass->blocks();
  const MeshStage& stage = nth(costs_->mesh->stages(), kind);
  const int base = costs_->layout->blocks_before(stage.role, chunk_of(v), 0);
  for (const MeshNeed& need : stage.needs) {
    if (need.blocks < base || need.blocks >= base + all) continue;
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

/// The pass after which a chunk's gradients are final, with the reductions it sets off.
void QuickPipeline::last_backward(const Visit& v, const QuickCosts::Pass& pass, QuickLane& lane) {
  const ChunkPass& p = *pass.pass;
  const MeshStage& stage = nth(costs_->mesh->stages(), kind_of_stage(v.stage));
  const int base = costs_->layout->blocks_before(stage.role, chunk_of(v), 1);
  double done = 0;
  const Interference* load = nullptr;
  const std::vector<MeshCall>& calls = stage.calls;
  auto at = std::partition_point(calls.begin(), calls.end(), [base](const MeshCall& c) { return c.blocks <= base; });
  const int blocks = nth(costs_->passes, 2 * v.content + 1).pass->blocks();
  for (const int end = base + blocks; at != calls.end() && at->blocks <= end; ++at) {
    const MeshCall& call = *at;
    const double offset = nth(p.offsets, call.blocks - base);
    compute(lane, offset - done, 0);
    done = offset;
    lane.dp_free = std::max(lane.free, lane.dp_free) + call.seconds;
    lane.dp_lost = lost_beside(p.work, call.load);
    lane.dp_stretch = lane.dp_lost / (1 - lane.dp_lost);
    load = &call.load;
  }
  if (load != nullptr) lane.dp_load = *load;
  compute(lane, pass.seconds - done, 0);
}

/// One call on its streams, not before `from`. What it takes from kernels is that of all that waits on the stream.
void QuickPipeline::issue(const PassCalls::Timed& call, const CallTask* tasks, const ComputeWork& work, double from,
                          QuickLane& lane) {
  double all = from;
  std::array<double, kMostCallTasks> ends;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  for (std::uint32_t i = 0; i < call.task_count; ++i) {
    const CallTask& t = tasks[i];
    double at = from;
    for (std::uint32_t left = t.after; left != 0; left &= left - 1)
      at = std::max(at, nth(ends, std::countr_zero(left)));
    if (t.stream == CallStream::compute) {
      idle(lane, at, at - lane.free, lane.exposed_dp);
      compute(lane, t.seconds, 0);
      lane.casts += t.seconds;
      ends[i] = lane.free;
    } else {
      const bool replicas = t.stream == CallStream::replicas;
      const double own = lost_beside(work, t.load);
      double& free = replicas ? lane.dp_free : lane.copies_free;
      double& lost = replicas ? lane.dp_lost : lane.copies_lost;
      if (const double waiting = free - lane.free; waiting <= 0 || lost == own)
        lost = own;
      else
        lost = (waiting * lost + t.seconds * own) / (waiting + t.seconds);
      (replicas ? lane.dp_stretch : lane.copies_stretch) = lost / (1 - lost);
      if (replicas) lane.dp_load = t.load;
      ends[i] = free = std::max(at, free) + t.seconds;
    }
    all = std::max(all, ends[i]);
  }
  if (call.needed >= 0) nth(whole_, call.needed) = std::max(nth(whole_, call.needed), all);
  if (call.holds) lane.gate = std::max(lane.gate, all);
}

/// A pass block by block, with the calls between.
void QuickPipeline::with_calls(const Visit& v, const QuickCosts::Pass& pass, double arrived, double slowed,
                               QuickLane& lane) {
  const ChunkPass& p = *pass.pass;
  const int kind = kind_of_stage(v.stage), blocks = p.blocks();
  const bool forward = v.direction == 0, first = (v.flags & (Visit::kFirstForward | Visit::kFirstBackward)) != 0;
  const PassCalls& calls =
      costs_->calls_of(kind, chunk_of(v), v.direction, first, (v.flags & Visit::kLastBackward) != 0);
  if (calls.timed.empty() && lane.gate <= lane.free && !(forward && first)) {
    wait_for_input(v, pass, arrived, lane);
    compute(lane, pass.seconds, slowed);
    return;
  }
  const double begin = lane.free, early = lane.before_last;
  block_ends_.assign(static_cast<std::size_t>(blocks), 0.0);
  whole_.assign(static_cast<std::size_t>(blocks), 0.0);
  auto call = calls.timed.begin();
  const auto issue_until = [&](int block) {
    for (; call != calls.timed.end() && call->at <= block; ++call) {
      double from = call->after >= 0                  ? nth(block_ends_, call->after)
                    : call->after == PassCall::kBegin ? begin
                    : call->after == PassCall::kEarly ? early
                                                      : 0;
      if (call->need >= 0 && !before_->empty()) from = std::max(from, nth(nth(*before_, kind), call->need));
      issue(*call, calls.tasks.data() + call->first_task, p.work, from, lane);
    }
  };
  for (int k = 0; k < blocks; ++k) {
    issue_until(k);
    if (k == 0) {
      wait_for_input(v, pass, arrived, lane);
      lane.slowed += slowed;
      lane.free += slowed;
      if (forward && first) first_forward(v, p, lane);
    }
    const double until = std::max(lane.gate, nth(whole_, k));
    idle(lane, until, until - lane.free, lane.exposed_dp);
    lane.before_last = lane.free;
    compute(lane, nth(p.seconds, k), 0);
    nth(block_ends_, k) = lane.free;
  }
  issue_until(blocks);
  compute(lane, pass.prepare, 0);
}

/// What kernels lose beside the message that they need: of its time, what they did not wait for.
inline double QuickPipeline::slowed_by_message(const Channel& channel, double arrived, const QuickLane& lane) {
  const double beside = channel.needs - channel.waits - std::max(0.0, arrived - channel.waits - lane.free);
  return beside > 0 ? beside * channel.needs_lost : 0.0;
}

void QuickPipeline::set_channels() {
  for (int d = 0; d < 2; ++d) {
    const Transfer* last = nullptr;
    double lost = 0;
    for (int s = 0; s < stages_; ++s) {
      const int content = costs_->layout->by_kind() ? static_cast<int>(ChunkKind::middle) : s;
      const ComputeWork& work = nth(costs_->passes, 2 * content + d).pass->work;
      const Transfer& t = message(d, s);
      if (last == nullptr || !costs_->layout->by_kind() || t.load.sm_share != last->load.sm_share ||
          t.load.hbm_share != last->load.hbm_share)
        lost = 1 - overlap_rate(work.sm_sensitivity, work.hbm_sensitivity, t.load);
      last = &t;
      const int to = d == 0 ? (s + 1) % stages_ : (s + stages_ - 1) % stages_;
      Channel& from = nth(channels_, 2 * s + d);
      Channel& there = nth(channels_, 2 * to + d);
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
  for (const Visit* at = visits.data(); at != end; ++at) {
    const Visit& v = *at;
    QuickLane& lane = lanes[v.stage];
    Channel& channel = channels[2U * v.stage + v.direction];
    const QuickCosts::Pass* pass = passes + (2U * v.content + v.direction);
    if constexpr (kCalls) {
      if (costs.pairs != nullptr && at + 1 != end && (at[1].flags & Visit::kPaired) != 0) {
        play_pair(v, *++at, lane);
        continue;
      }
      if (!costs.calls.empty() && (v.flags & Visit::kFirstBackward) != 0) pass = &costs.first_backwards[v.content];
    }
    const double arrived = v.in >= 0 ? arrival[v.in] : 0.0;
    const double slowed = v.in >= 0 ? slowed_by_message(channel, arrived, lane) : 0.0;
    if (kCalls && !costs.calls.empty()) {
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
  const QuickCosts::Pass& forward = nth(costs_->passes, 2 * ahead.content);
  const QuickCosts::Pass& backward = nth(costs_->passes, 2 * back.content + 1);
  double slowed = 0;
  idle(lane, lane.held, lane.held - lane.free, lane.exposed_pp);
  for (const auto& [v, pass] : {std::pair{&ahead, &forward}, {&back, &backward}}) {
    if (v->in < 0) continue;
    const Channel& channel = nth(channels_, 2 * v->stage + v->direction);
    const double arrived = nth(arrival_, v->in), begin = nth(pair.begin, v->direction);
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
    with_calls(back, both, 0, slowed, lane);
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
    if (v->out >= 0) send(*v, *pass, left, nth(channels_, 2 * v->stage + v->direction), lane);
}

void QuickPipeline::begin(int messages, const PipelineShape& shape, const QuickCosts& costs, const TailEnds& before,
                          const std::vector<QuickLane>& lanes) {
  costs_ = &costs;
  before_ = &before;
  beside_ = {};
  const int stages = stages_ = shape.stages;
  chunks_ = shape.virtual_stages;
  lanes_.resize(static_cast<std::size_t>(stages));
  for (int s = 0; s < stages; ++s) nth(lanes_, s) = nth(lanes, kind_of_stage(s));
  channels_.assign(2 * static_cast<std::size_t>(stages), {});
  if (stages > 1) set_channels();
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
