#pragma once
// A measured workload as a Program with its prices: what `simulate` plays.

#include <memory>
#include <string>
#include <vector>

#include "core/import/traces/measured_workload.hpp"
#include "core/price/cost_model.hpp"
#include "core/program/program.hpp"

namespace rehearse {

struct MeasuredProgram {
  Program program;
  std::shared_ptr<const TaskTimes> times;  ///< Of its compute tasks, for CostModel::Options.
  std::vector<std::string> notes;          ///< What was taken for granted for the ranks that were not traced.
};

/// Ranks are numbered as in the traced job, with its data-parallel groups of `workload.data_parallel` instead; a rank
/// that was not traced does what the traced rank does that has the most coordinates in common with it. Throws Error
/// (usage), with the equation, for groups that don't divide the ranks into a mesh; also for a data-parallel size that
/// the mesh cannot have, and for messages between two ranks that are not to last as measured.
[[nodiscard]] MeasuredProgram measured_program(const MeasuredWorkload& workload);

}  // namespace rehearse
