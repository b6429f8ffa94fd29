#pragma once
// From a result to the report that simulate and estimate print.

#include "core/cli/session.hpp"
#include "core/report/step_report.hpp"

namespace rehearse::cli {

/// Steps to play for a period in the steady state: more than one where a step hands work to the next (gathers of updated parameters
/// that run under the next forward).
[[nodiscard]] int steps_to_play(const Session& session);

/// Everything but the picture.
[[nodiscard]] StepReport report_of(const Session& session, const Program& program, const CostModel& cost, const RunResult& run, MemoryReport memory);

}  // namespace rehearse::cli
