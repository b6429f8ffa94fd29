// Passes with calls of their own, block by block, and those that are as one before them was.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "core/base/index.hpp"
#include "core/estimate/quick/quick_pipeline.hpp"

namespace rehearse {

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
      lane.idle(at, at - lane.free, lane.exposed_dp);
      lane.compute(t.seconds, 0);
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
    lane.compute(pass.seconds, slowed);
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
    lane.idle(until, until - lane.free, of_copy ? lane.exposed_copy : lane.exposed_dp);
    lane.before_last = lane.free;
    lane.compute(nth(p.seconds, k), 0);
    nth(block_ends_, k) = lane.free;
  }
  issue_until(blocks);
  lane.compute(pass.prepare, 0);
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

}  // namespace rehearse
