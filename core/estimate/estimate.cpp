#include "core/estimate/estimate.hpp"

#include "core/base/index.hpp"
#include "core/estimate/walk/walk.hpp"

namespace rehearse {

Estimate estimate(const Program& program, const CostModel& cost, const StrategySettings& /*settings*/, int steps) {
  const WalkResult walked = walk(program, cost, steps);
  const WalkedKind& slowest = nth(walked.kinds, walked.slowest);
  return {walked.step_time, slowest.breakdown, slowest.role};
}

}  // namespace rehearse
