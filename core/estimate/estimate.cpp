#include "core/estimate/estimate.hpp"

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/estimate/walk/walk.hpp"
#include "core/play/clocks/analytic_clock.hpp"
#include "core/play/player/player.hpp"

namespace rehearse {

namespace {

/// Messages of a rank that keeps the parameters go to ranks that the walk takes for one kind, which then wait for each
/// other: these are played, until kinds tell them apart.
Estimate played(const Program& program, const CostModel& cost, int steps) {
  RunOptions options;
  options.steps = steps;
  AnalyticClock clock(cost.cluster());
  Trace nothing({});
  const RunResult run = play(program, cost.cluster(), cost, options, nothing, clock, "estimate");
  const RankMetrics& slowest = nth(run.ranks, run.slowest);
  return {run.step_time, slowest.breakdown, slowest.role};
}

}  // namespace

Estimate estimate(const Program& program, const CostModel& cost, const StrategySettings& settings, int steps) {
  if (settings.data_parallel != DataParallelism::replicas) return played(program, cost, steps);
  const WalkResult walked = walk(program, cost, steps);
  const WalkedKind& slowest = nth(walked.kinds, walked.slowest);
  return {walked.step_time, slowest.breakdown, slowest.role};
}

}  // namespace rehearse
