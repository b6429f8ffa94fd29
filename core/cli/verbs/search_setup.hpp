#pragma once
// What search, sweep and merge share: from a session to a search problem and the figures of its report.

#include <set>
#include <string>
#include <vector>

#include "core/cli/session.hpp"
#include "core/cli/verb.hpp"
#include "core/report/results/search_report.hpp"

namespace rehearse::cli {

/// Refers to `session` and `cost`: both must outlive it.
[[nodiscard]] SearchProblem problem_of(const Session& session, const CostModel& cost);
[[nodiscard]] StepFigures figures_of(const Session& session);

/// The scenario's session, and whether its own strategy is a plan for its cluster; where it is not, `note` says why.
struct SearchSession {
  Session session;
  bool own_is_a_plan = true;
  std::string note{};
};
[[nodiscard]] SearchSession open_search_session(const Scenario& scenario);

/// "tp=8" or "strategy.tp=8" as "strategy.tp=8". Throws Error (usage) for keys that are not a strategy's.
[[nodiscard]] std::string fix_override(const std::string& text);
/// The searched keys among `overrides` ("strategy.tp=8"), without their group.
[[nodiscard]] std::set<std::string> fixed_keys(const std::vector<std::string>& overrides);

/// "2/8" as index 1 of 8. Throws Error (usage).
[[nodiscard]] SearchShard parse_shard(const std::string& text);
/// -j: 1 to 1,024; without it as many as the machine has cores.
[[nodiscard]] int jobs_of(const Arguments& arguments);
/// A whole number from `least` on. Throws Error (usage) naming the option.
[[nodiscard]] int whole_of(const Arguments& arguments, const std::string& option, int least, int fallback);

[[nodiscard]] Option jobs_option();
[[nodiscard]] Option shard_option();

/// Head and figures of a report on `session`, which must outlive it, without a result.
[[nodiscard]] SearchReport search_report_of(const Session& session, const std::string& file);

}  // namespace rehearse::cli
