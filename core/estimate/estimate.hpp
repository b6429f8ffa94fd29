#pragma once
// How long a step takes, in closed form: bodies are priced once each, a schedule's recurrence gives the pipeline, and
// what follows the last pass is walked once. For search and sweeps; a test holds it to the analytic back end.
//
// What it leaves out: traffic of replicas that do not lie alike, links shared between flows (as the analytic back end
// does), and the exact moments at which messages slow kernels (their total is kept).
//
// Programs whose passes gather or reduce on the way (ZeRO 2 and 3, FSDP), split their backward or have several roles
// per stage are outside the recurrence: of these one rank of each kind is played, replicas that lie alike folded into
// it.

#include "core/config/settings/forward.hpp"
#include "core/play/backend.hpp"
#include "core/price/cost_model.hpp"
#include "core/program/program.hpp"

namespace rehearse {

struct Estimate {
  Seconds step_time;     ///< As RunResult::step_time.
  Breakdown breakdown;   ///< Of the slowest stage; adds up to `step_time`.
  int slowest_role = 0;  ///< Index into Program::roles.
};

/// `settings` are those `program` was lowered with. `steps` as in RunOptions: with 1 the step begins with everything
/// idle and ends when nothing is left to do; with more, the step time is the period of steps that follow each other.
[[nodiscard]] Estimate estimate(const Program& program, const CostModel& cost, const StrategySettings& settings,
                                int steps = RunOptions{}.steps);

}  // namespace rehearse
