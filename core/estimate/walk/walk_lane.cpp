#include "core/estimate/walk/walk_lane.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/index.hpp"

namespace rehearse {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

bool is_kernel(const PlayOp& op) { return op.kind == PlayOp::Kind::compute; }

}  // namespace

WalkLane::WalkLane(const Program& program, const CompiledRole& role, int steps)
    : p_(program),
      role_(&role),
      last_step_(steps - 1),
      next_(kNever),
      active_(program.streams.size()),
      step_ends_(static_cast<std::size_t>(steps), 0.0) {
  states_.reserve(role.ops.size());
  for (const PlayOp& op : role.ops) {
    states_.push_back({0, -1, static_cast<std::uint16_t>(op.dependencies)});
    one_by_one_ = one_by_one_ && (!is_kernel(op) || op.stream == 0);
  }
}

void WalkLane::add_kernel(std::int32_t op) {
  if (one_by_one_)
    begin_kernel(op);
  else
    waiting_.push_back(op);
  look_ahead();
}

/// Kernels advance at the rate that the traffic beside them leaves.
double WalkLane::end_of_kernel() const {
  const PlayOp& op = this->op(running_);
  double at = begin_, left = op.duration;
  while (left > 0) {
    Interference load;
    double until = kNever;
    for (const Traffic& t : traffic_) {
      if (t.end <= at) continue;
      if (t.begin > at) {
        until = std::min(until, t.begin);
        continue;
      }
      load.sm_share += t.load.sm_share;
      load.hbm_share += t.load.hbm_share;
      until = std::min(until, t.end);
    }
    const double rate = overlap_rate(op.sm_sensitivity, op.hbm_sensitivity, load);
    if ((until - at) * rate >= left) return at + left / rate;
    left -= (until - at) * rate;
    at = until;
  }
  return at;
}

void WalkLane::look_ahead() {
  next_ = kNever;
  if (running_ >= 0) next_ = end_;
  for (const std::int32_t op : waiting_) next_ = std::min(next_, at(op).ready);
}

std::int32_t WalkLane::advance(double& end) {
  std::int32_t out = -1;
  if (running_ >= 0 && end_ <= next_) {
    out = std::exchange(running_, -1);
    end = end_;
    book_kernel(out, begin_, end_);
  } else {
    const auto first = std::min_element(waiting_.begin(), waiting_.end(),
                                        [this](auto a, auto b) { return at(a).ready < at(b).ready; });
    const std::int32_t op = *first;
    waiting_.erase(first);
    if (running_ < 0) {
      begin_kernel(op);
    } else {
      out = op;
      end = at(op).ready + this->op(op).duration;
      book_kernel(op, at(op).ready, end);
    }
  }
  look_ahead();
  return out;
}

void WalkLane::begin_kernel(std::int32_t op) {
  running_ = op;
  begin_ = at(op).ready;
  std::erase_if(traffic_, [this](const Traffic& t) { return t.end <= begin_; });
  end_ = end_of_kernel();
}

void WalkLane::add_traffic(StreamId stream, double begin, double moved, double end, const Interference& load) {
  if (end > begin) nth(active_, stream).spans.push_back({begin, end});
  if (moved <= begin || (load.sm_share <= 0 && load.hbm_share <= 0)) return;
  traffic_.push_back({begin, moved, load});
  if (running_ < 0 || begin >= end_ || moved <= begin_) return;
  end_ = end_of_kernel();
  look_ahead();
}

void WalkLane::ended(std::int32_t index, double end) {
  const PlayOp& op = this->op(index);
  double& step = nth(step_ends_, op.step);
  step = std::max(step, end);
  if (op.kind == PlayOp::Kind::launch) return;
  last_end_ = std::max(last_end_, end);
  if ((is_kernel(op) && op.stream == 0) || end < last_other_end_) return;
  last_other_ = index;
  last_other_end_ = end;
}

void WalkLane::book_kernel(std::int32_t index, double begin, double end) {
  const PlayOp& op = this->op(index);
  if (op.stream != 0) {
    nth(active_, op.stream).spans.push_back({begin, end});
    return;
  }
  if (op.step == last_step_) {
    close_gap(begin, at(index).cause);
    breakdown_ += nth(role_->breakdowns, op.price);
    breakdown_[TimeCategory::overlap_slowdown] += Seconds{end - begin - op.duration};
  }
  idle_since_ = end;
}

/// Seconds in which the stream was active; asked with moments that do not go back.
double WalkLane::active(StreamId stream, double from, double until) {
  Active& a = nth(active_, stream);
  while (a.first < a.spans.size() && a.spans[a.first][1] <= from) ++a.first;
  double sum = 0;
  for (std::size_t i = a.first; i < a.spans.size() && a.spans[i][0] < until; ++i)
    sum += std::max(0.0, std::min(a.spans[i][1], until) - std::max(a.spans[i][0], from));
  return sum;
}

/// The compute stream waited until then. While a stream that explains the wait was active the time is exposed
/// communication of that stream, the rest is bubble.
void WalkLane::close_gap(double until, std::int32_t cause) {
  double gap = until - idle_since_;
  if (gap <= 0) return;
  if (cause >= 0) {
    const PlayOp& by = op(cause);
    if (by.kind == PlayOp::Kind::launch) {
      const double launching = std::min(gap, by.duration);
      breakdown_[TimeCategory::launch] += Seconds{launching};
      gap -= launching;
    }
    // Kernels between calls of a communicator, on its stream, count as waiting for it.
    const bool on_wire = by.stream != 0 && category_of_stream(p_, by.stream) == TimeCategory::exposed_dp;
    for (StreamId s = 0; s < static_cast<StreamId>(active_.size()) && gap > 0 && (!is_kernel(by) || on_wire); ++s) {
      if ((by.cause_streams >> s & 1) == 0) continue;
      const double moved = std::clamp(active(s, idle_since_, until), 0.0, gap);
      breakdown_[category_of_stream(p_, s)] += Seconds{moved};
      gap -= moved;
    }
  }
  breakdown_[TimeCategory::bubble] += Seconds{gap};
}

Breakdown WalkLane::breakdown(double period) {
  if (last_other_ >= 0) close_gap(last_end_, last_other_);
  const double missing = period - breakdown_.total().value();
  Seconds& bubble = breakdown_[TimeCategory::bubble];
  if (bubble.value() + missing >= 0)
    bubble += Seconds{missing};
  else
    breakdown_ *= period / breakdown_.total().value();
  return breakdown_;
}

}  // namespace rehearse
