#pragma once
// Whether every step of a plan is the same work at the same places, so that a device may record one and replay it: CUDA
// graphs. Only inputs, and numbers that the device finds in its memory, may differ from step to step.

#include <string>
#include <string_view>

#include "gpu_backend/execute/plan.hpp"

namespace rehearse {

/// What runs a plan, as far as recording goes.
struct RecordedBy {
  std::string records_nothing_because{};  ///< ComputeDevice's; empty where it can.
  bool transport_enqueues = false;        ///< Transport's.
  int ranks = 1;
  bool observed_on_host = false;  ///< Whether somebody looks at tensors in the middle of a step.
};

/// Why steps of this plan are issued task by task, in one line; empty where they may be replayed. A property of the
/// plan and of what runs it: all ranks of a role agree.
[[nodiscard]] std::string not_repeated_because(const RankPlan& plan, const RecordedBy& by);

}  // namespace rehearse
