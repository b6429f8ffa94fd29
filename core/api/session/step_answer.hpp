#pragma once
// From what a back end says of a step to its report.

#include <vector>

#include "core/api/session/session.hpp"
#include "core/report/results/step_report.hpp"

namespace rehearse {

/// Steps to play for a period in the steady state: more than one where a step hands work to the next (gathers of
/// updated parameters that run under the next forward).
[[nodiscard]] int steps_to_play(const Session& session);

/// The first rank of every role: one row of the picture each.
[[nodiscard]] std::vector<GanttRow> role_rows(const Program& program);

/// Everything but the picture.
[[nodiscard]] StepReport report_of(const Session& session, const Program& program, const CostModel& cost,
                                   const RunResult& run, MemoryReport memory);

}  // namespace rehearse
