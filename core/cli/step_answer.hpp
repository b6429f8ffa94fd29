#pragma once
// Playing a step, and from a result to the report that simulate and estimate print.

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "core/cli/session.hpp"
#include "core/report/results/step_report.hpp"

namespace rehearse::cli {

/// Steps to play for a period in the steady state: more than one where a step hands work to the next (gathers of
/// updated parameters that run under the next forward).
[[nodiscard]] int steps_to_play(const Session& session);

/// The first rank of every role: one row of the picture each.
[[nodiscard]] std::vector<GanttRow> role_rows(const Program& program);

struct PlayRequest {
  std::string backend;
  bool fold = true;
  std::set<int> traced;  ///< Ranks whose spans are kept.
  bool all_flows = false;
  std::function<void(const RunProgress&)> progress = {};
};

/// Plays `program` and reports with its trace, no rows chosen. Throws Error (check_failed) with every breach where the
/// result breaks physics.
[[nodiscard]] StepReport play_step(const Session& session, const Program& program, MemoryReport memory,
                                   const PlayRequest& request);

/// Everything but the picture.
[[nodiscard]] StepReport report_of(const Session& session, const Program& program, const CostModel& cost,
                                   const RunResult& run, MemoryReport memory);

}  // namespace rehearse::cli
