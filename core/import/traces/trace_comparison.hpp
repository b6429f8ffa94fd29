#pragma once
// A traced job beside the simulation of a scenario: time per class of kernel, per collective, and lost to waiting.

#include <string>
#include <vector>

#include "core/import/traces/job_trace.hpp"
#include "core/price/cost_model.hpp"
#include "core/program/program.hpp"
#include "core/report/formats/document.hpp"
#include "core/trace/trace.hpp"

namespace rehearse {

/// A played step and what it was played from; all must outlive the call.
struct SimulatedStep {
  std::string name;
  const Program* program = nullptr;
  const CostModel* cost = nullptr;
  const Trace* trace = nullptr;  ///< With spans of `ranks`.
  std::vector<int> ranks;        ///< Means are taken over these.
  Seconds begin, step_time;
};

/// Both sides per step and rank. The trace's steps are those that the profiler marked; without marks the whole trace
/// counts as one step, which the document says. Waiting is, on either side, the time from a rank's entry into a call
/// until the last rank's.
[[nodiscard]] Document trace_comparison(const JobTrace& job, const SimulatedStep& step);

}  // namespace rehearse
