#pragma once
// From a scenario to a search problem and the head of its report: what search, sweeps and merging of parts share.

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "core/api/session/session.hpp"
#include "core/report/results/search_report.hpp"

namespace rehearse {

/// Refers to `session` and `cost`: both must outlive it.
[[nodiscard]] SearchProblem problem_of(const Session& session, const CostModel& cost);
[[nodiscard]] StepFigures figures_of(const Session& session);

/// The scenario's session, and whether its own strategy is a plan for its cluster; where it is not, `note` says why.
struct SearchSession {
  Scenario asked;  ///< As it was given, with automatic axes.
  Session session;
  bool own_is_a_plan = true;
  std::string note{};
};
/// `data` as in SessionOptions. Throws Error (usage) for all but the strategy.
[[nodiscard]] SearchSession open_search_session(const Scenario& scenario, const std::filesystem::path& data = {});

/// "tp=8" or "strategy.tp=8" as "strategy.tp=8"; also "zero", "mb", "v", "vpp", "sp" and "fsdp". Throws Error (usage)
/// for keys that are not a strategy's, and, `where` being "fix", for what is not KEY=VALUE.
[[nodiscard]] std::string fix_override(const std::string& text);
/// The searched keys among `overrides` ("strategy.tp=8"), without their group.
[[nodiscard]] std::set<std::string> fixed_keys(const std::vector<std::string>& overrides);

/// Head and figures of a report on `session`, without a result. `file` is where the scenario is from.
[[nodiscard]] SearchReport search_report_of(const Session& session, const std::string& file);

}  // namespace rehearse
