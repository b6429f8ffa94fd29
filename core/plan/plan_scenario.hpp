#pragma once
// A plan as a scenario: what was decided for a candidate can be simulated, exported and searched like any other job.
//
//   rehearse simulate plan.json --set cluster.machine=dgx_h100 --set cluster.nodes=70 ...
//
// A plan's file is read as a scenario on one machine of its first candidate; overrides say which machines, how many,
// and how they are used.

#include <string>
#include <string_view>
#include <vector>

#include "core/plan/candidate.hpp"

namespace rehearse {

/// The scenario of a plan's text: its model, training, kernels and strategy, on the first candidate that names a
/// machine, or else on the first one's cluster. `origin` and `overrides` as in parse_scenario(). Throws Error (usage)
/// as parse_plan() does for a plan that is wrong, and as parse_scenario() does for overrides.
[[nodiscard]] Scenario plan_scenario(std::string_view text, const std::string& origin,
                                     const std::vector<std::string>& overrides = {});

/// Overrides, "cluster.nodes=70", with which plan_scenario() gives the scenario of that point.
[[nodiscard]] std::vector<std::string> point_overrides(const Plan& plan, const PlanCandidate& candidate,
                                                       const PlanPoint& point);

/// Of a plan's overrides those that a scenario has too, in their order: "training.tokens=1e12".
[[nodiscard]] std::vector<std::string> scenario_overrides(const std::vector<std::string>& overrides);

/// A line for a shell: "rehearse simulate plan.json --set cluster.nodes=70". Words that a shell would read otherwise
/// are quoted.
[[nodiscard]] std::string command_line(const std::vector<std::string>& words,
                                       const std::vector<std::string>& overrides);

}  // namespace rehearse
