#include "core/estimate/estimate_pipeline.hpp"

#include <algorithm>
#include <stdexcept>

#include "core/base/index.hpp"

namespace rehearse {

namespace {

class Round {
 public:
  Round(const std::vector<Stage>& stages, const Schedule& schedule, const PipelineShape& shape, bool blocking,
        const PipelineState& start)
      : stages_(stages),
        microbatches_(shape.microbatches),
        chunks_(shape.stages * shape.virtual_stages),
        blocking_(blocking),
        before_(start.events) {
    state_.lanes = start.lanes;
    state_.events.resize(stages.size());
    arrival_.assign(2 * static_cast<std::size_t>(chunks_) * static_cast<std::size_t>(microbatches_), kNever);
    channel_free_.assign(stages.size() * 2, 0.0);
    for (std::size_t s = 0; s < stages.size(); ++s) {
      orders_.push_back(schedule.order(static_cast<int>(s), shape));
      left_ += orders_.back().size();
      find_ends(orders_.back());
    }
    next_.assign(stages.size(), 0);
  }

  PipelineState run() {
    while (left_ > 0) {
      const std::size_t before = left_;
      for (std::size_t s = 0; s < stages_.size(); ++s) advance(s);
      if (left_ == before) throw std::logic_error("the schedule waits for itself");
    }
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      for (int i = 0; i < stages_[s].deferred.microbatches; ++i) {
        StageLane& lane = state_.lanes[s];
        lane.wait_for(lane.held, lane.held - lane.free, TimeCategory::exposed_pp);
        lane.prune();
        lane.compute(stages_[s].deferred.each, stages_[s].deferred.each.seconds);
      }
    }
    return std::move(state_);
  }

 private:
  static constexpr double kNever = -1;

  void find_ends(const std::vector<Slot>& order) {
    std::map<int, std::size_t> first, last;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (order[i].pass == Pass::forward)
        first.try_emplace(order[i].chunk, i);
      else
        last[order[i].chunk] = i;
    }
    first_.emplace_back(order.size(), 0);
    last_.emplace_back(order.size(), 0);
    for (const auto& [chunk, i] : first) first_.back()[i] = 1;
    for (const auto& [chunk, i] : last) last_.back()[i] = 1;
  }

  [[nodiscard]] double& arrival(int direction, int chunk, int microbatch) {
    return nth(arrival_, (direction * chunks_ + chunk) * microbatches_ + microbatch);
  }

  void advance(std::size_t s) {
    const auto& order = orders_[s];
    for (std::size_t& i = next_[s]; i < order.size(); ++i, --left_) {
      const int direction = order[i].pass == Pass::forward ? 0 : 1;
      const StagePass& pass = nth(stages_[s].chunks.at(order[i].chunk), direction);
      if (pass.receives && arrival(direction, order[i].chunk, order[i].microbatch) == kNever) return;
      wait(s, i, direction, pass);
      work(s, i, pass, stages_[s].deferred.leaves(order[i]) ? stages_[s].deferred.backward : pass.work);
      if (pass.peer >= 0) send(s, order[i], direction, pass);
    }
  }

  void wait(std::size_t s, std::size_t i, int direction, const StagePass& pass) {
    StageLane& lane = state_.lanes[s];
    const Slot& slot = orders_[s][i];
    lane.wait_for(lane.held, lane.held - lane.free, TimeCategory::exposed_pp);
    if (pass.receives) {
      const double arrived = arrival(direction, slot.chunk, slot.microbatch);
      const double unpacked =
          pass.unpacks_in_line ? std::max(arrived, lane.free - lane.trailing) + pass.unpack.seconds : 0.0;
      lane.wait_for(arrived, pass.incoming_seconds, TimeCategory::exposed_pp);
      lane.wait_for(unpacked, pass.unpack.seconds, TimeCategory::exposed_tp);
    }
    for (const InputCopy& copy : pass.inputs) {
      lane.input_done += copy.seconds;
      lane.wait_for(lane.input_done - copy.offset, copy.seconds, TimeCategory::exposed_copy);
    }
    if (!first_[s][i] || before_[s].empty()) return;
    for (const LateNeed& need : pass.needs) {
      const double until = before_[s].at(need.event) - need.offset;
      lane.wait_for(until, until - lane.free, TimeCategory::exposed_dp);
    }
  }

  void work(std::size_t s, std::size_t i, const StagePass& pass, const ComputeWork& own) {
    StageLane& lane = state_.lanes[s];
    lane.prune();
    double done = 0;
    if (last_[s][i]) {
      for (const SideCall& call : pass.calls) {
        lane.compute(own, call.offset - done);
        done = call.offset;
        const double begin = std::max(lane.free, lane.dp_free);
        lane.dp_free = begin + call.transfer.seconds;
        lane.add({begin, lane.dp_free, call.transfer.load, call.category});
        if (call.event >= 0) state_.events[s][call.event] = lane.dp_free;
      }
    }
    lane.compute(own, own.seconds - done);
    if (pass.prepare.seconds > 0) lane.compute(pass.prepare, pass.prepare.seconds);
  }

  void send(std::size_t s, const Slot& slot, int direction, const StagePass& pass) {
    StageLane& from = state_.lanes[s];
    StageLane& to = nth(state_.lanes, pass.peer);
    double& channel = channel_free_[s * 2 + static_cast<std::size_t>(direction)];
    const double begin = std::max(from.free, channel), end = begin + pass.message.seconds;
    channel = end;
    const Busy moves{begin, end - pass.message.wait, pass.message.load, TimeCategory::exposed_pp};
    from.add(moves);
    to.add(moves);
    if (blocking_) from.held = end;
    const int chunk = direction == 0 ? slot.chunk + 1 : slot.chunk - 1;
    const StagePass& next = nth(nth(stages_, pass.peer).chunks.at(chunk), direction);
    const double unpacked = end + (next.unpacks_in_line ? 0.0 : next.unpack.seconds);
    if (unpacked > end) to.add({end, unpacked, next.unpack.load, TimeCategory::exposed_tp});
    arrival(direction, chunk, slot.microbatch) = unpacked;
  }

  const std::vector<Stage>& stages_;
  int microbatches_, chunks_;
  bool blocking_;
  const std::vector<EventTimes>& before_;
  PipelineState state_;
  std::vector<std::vector<Slot>> orders_;
  std::vector<std::vector<char>> first_, last_;  ///< By slot: a chunk's first forward, a chunk's last backward.
  std::vector<std::size_t> next_;
  std::vector<double> arrival_, channel_free_;
  std::size_t left_ = 0;
};

/// Work of one microbatch on the stage that has most: no step grows by less per microbatch.
double slowest_stage(const std::vector<Stage>& stages) {
  double most = 0;
  for (const Stage& stage : stages) {
    double own = 0;
    for (const auto& [chunk, passes] : stage.chunks)
      for (const StagePass& pass : passes) own += pass.work.seconds + pass.prepare.seconds;
    most = std::max(most, own);
  }
  return most;
}

/// `far` moved on by `k` times its distance from `near`, which is at least `least`.
StageLane beyond(const StageLane& near, const StageLane& far, double k, double least) {
  StageLane out = far;
  const double shift = k * std::max(far.free - near.free, least);
  out.free += shift;
  out.held += far.held > 0 ? shift : 0.0;
  out.input_done += k * (far.input_done - near.input_done);
  out.dp_free += far.dp_free > 0 ? shift : 0.0;
  for (Busy& b : out.traffic) {
    b.begin += shift;
    b.end += shift;
  }
  for (std::size_t c = 0; c < out.waits.seconds.size(); ++c)
    out.waits.seconds[c] += max(Seconds{0}, far.waits.seconds[c] - near.waits.seconds[c]) * k;
  return out;
}

}  // namespace

PipelineState PipelineRecurrence::run(const PipelineState& start, int microbatches) const {
  return Round(stages_, schedule_, {shape_.stages, shape_.virtual_stages, microbatches}, blocking_, start).run();
}

PipelineState PipelineRecurrence::run(const PipelineState& start) const {
  const int p = shape_.stages, m = shape_.microbatches;
  const int near_by = 4 * p, far_off = 6 * p;
  const bool alike =
      std::all_of(stages_.begin(), stages_.end(), [](const Stage& s) { return s.deferred.microbatches == 0; });
  if (m <= far_off || !alike) return run(start, m);
  const PipelineState near = run(start, near_by);
  PipelineState far = run(start, far_off);
  const double k = static_cast<double>(m - far_off) / (far_off - near_by),
               least = slowest_stage(stages_) * (far_off - near_by);
  for (std::size_t s = 0; s < far.lanes.size(); ++s) {
    const StageLane moved = beyond(near.lanes[s], far.lanes[s], k, least);
    for (auto& [event, time] : far.events[s]) time += moved.free - far.lanes[s].free;
    far.lanes[s] = moved;
  }
  return far;
}

}  // namespace rehearse
