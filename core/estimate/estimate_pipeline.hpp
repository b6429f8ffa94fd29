#pragma once
// The schedule's recurrence. With e(s, i) the end of the i-th pass on stage s and a(s, i) the arrival of what it needs,
//
//   e(s, i) = max(e(s, i-1), a(s, i)) + d(s, i),     a = e(neighbour, j) + message,
//
// which for equal stages and free messages is m (F + B) (1 + bubble_ratio). d is stretched by traffic beside the pass.
// After a few rounds of the pipeline every time grows by the same amount per microbatch, so that only those rounds are
// worked out. Where the first microbatches leave weight gradients to the drain, all rounds are.

#include <map>
#include <vector>

#include "core/estimate/estimate_lane.hpp"
#include "core/estimate/estimate_stage.hpp"

namespace rehearse {

using EventTimes = std::map<EventId, double>;

/// Where the stages stand: before a step, after its last pass, or after the step.
struct PipelineState {
  std::vector<StageLane> lanes;
  std::vector<EventTimes> events;  ///< By stage: those of side calls, later of the tail.
};

class PipelineRecurrence {
 public:
  PipelineRecurrence(const std::vector<Stage>& stages, const Schedule& schedule, PipelineShape shape, bool blocking)
      : stages_(stages), schedule_(schedule), shape_(shape), blocking_(blocking) {}

  /// From the start of a step to the end of every stage's last pass.
  [[nodiscard]] PipelineState run(const PipelineState& start) const;

 private:
  [[nodiscard]] PipelineState run(const PipelineState& start, int microbatches) const;

  const std::vector<Stage>& stages_;
  const Schedule& schedule_;
  PipelineShape shape_;
  bool blocking_;
};

}  // namespace rehearse
