#include "core/cost/quick_estimate.hpp"

#include <utility>

#include "core/cost/estimate.hpp"
#include "core/strategy/lower.hpp"

namespace rehearse {

struct QuickEstimator::Impl {
  Workload workload;
  TrainingSettings training;
  const Cluster& cluster;
  const CostModel& cost;
  MemoryRule rule;
  int steps;

  QuickEstimate lowered(const StrategySettings& s) {
    const Program program = lower(workload, s, cluster);
    const Estimate e = estimate(program, cost, s, steps);
    QuickEstimate out{e.step_time, e.breakdown, e.slowest_role, {}, {}, {}, false};
    double fullest = -1;
    for (RoleMemory& memory : rule.peaks(program)) {
      Bytes capacity = cluster.gpu(program.device_of_rank[static_cast<std::size_t>(memory.rank)]).memory;
      for (std::size_t r = 0; r < program.role_of_rank.size() && cluster.parts().size() > 1; ++r)
        if (program.role_of_rank[r] == memory.role) capacity = min(capacity, cluster.gpu(program.device_of_rank[r]).memory);
      const Bytes needed = rule.needed(memory);
      if (needed / capacity <= fullest) continue;
      fullest = needed / capacity;
      out.needed = needed;
      out.capacity = capacity;
      out.memory = std::move(memory);
    }
    return out;
  }
};

QuickEstimator::QuickEstimator(Workload base, const Cluster& cluster, const CostModel& cost, MemoryRule rule, int steps)
    : impl_(std::make_unique<Impl>(Impl{std::move(base), {}, cluster, cost, rule, steps})) {
  impl_->training = impl_->workload.training;
}
QuickEstimator::~QuickEstimator() = default;
QuickEstimator::QuickEstimator(QuickEstimator&&) noexcept = default;

QuickEstimate QuickEstimator::operator()(const StrategySettings& strategy, const TrainingSettings& training) {
  impl_->workload.training = training;
  return impl_->lowered(strategy);
}

QuickEstimate QuickEstimator::operator()(const StrategySettings& strategy) { return (*this)(strategy, impl_->training); }

}  // namespace rehearse
