#pragma once
// How long a step takes, in closed form: one walk over the operations of every kind of rank (walk/walk.hpp). For
// search, plans and sweeps; a test holds it to the analytic back end, which plays every rank.
//
//   const Program program = lower(workload, strategy, cluster);
//   const Estimate e = estimate(program, cost, strategy);
//   fmt::print("{}, bound by {}\n", to_string(e.step_time), name_of(bound_by(e.breakdown)));
//
// Whatever can be lowered is inside it. Outside it, as outside the analytic back end, are links that flows share.

#include "core/config/settings/forward.hpp"
#include "core/play/backend.hpp"
#include "core/price/cost_model.hpp"
#include "core/program/program.hpp"

namespace rehearse {

struct WalkResult;  // walk/walk.hpp

struct Estimate {
  Seconds step_time;     ///< As RunResult::step_time.
  Breakdown breakdown;   ///< Of the slowest kind of rank; adds up to `step_time`.
  int slowest_role = 0;  ///< Its role: index into Program::roles.

  Estimate() = default;
  explicit Estimate(const WalkResult& walked);
};

/// `settings` are those `program` was lowered with; nothing is read from them. `steps` as in RunOptions: with 1 the
/// step begins with everything idle and ends when nothing is left to do; with more, the step time is the period of
/// steps that follow each other.
[[nodiscard]] Estimate estimate(const Program& program, const CostModel& cost, const StrategySettings& settings,
                                int steps = RunOptions{}.steps);

}  // namespace rehearse
