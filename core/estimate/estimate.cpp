#include "core/estimate/estimate.hpp"

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/estimate/walk/walk.hpp"
#include "core/play/clocks/analytic_clock.hpp"
#include "core/play/player/player.hpp"

namespace rehearse {

namespace {

/// The walk stops before the end of funnels and parameter servers, for a reason that is not found yet
/// (core/estimate/README.md): these are played.
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
