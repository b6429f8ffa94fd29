#include "core/estimate/estimate.hpp"

#include "core/base/index.hpp"
#include "core/estimate/walk/walk.hpp"

namespace rehearse {

Estimate::Estimate(const WalkResult& walked)
    : step_time(walked.step_time),
      breakdown(nth(walked.kinds, walked.slowest).breakdown),
      slowest_role(nth(walked.kinds, walked.slowest).role) {}

Estimate estimate(const Program& program, const CostModel& cost, const StrategySettings& /*settings*/, int steps) {
  return Estimate(walk(program, cost, steps));
}

}  // namespace rehearse
