#include "core/plan/step_search.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/cost/estimate.hpp"
#include "core/cost/memory_rule.hpp"
#include "core/report/metrics.hpp"
#include "core/strategy/lower.hpp"

namespace rehearse {

namespace {

class TrialSearch final : public StepSearch {
 public:
  TrialSearch(std::shared_ptr<const StepQuestion> question, ClusterOf cluster, ProfilesOf profiles) : question_(std::move(question)), cluster_(std::move(cluster)), profiles_(std::move(profiles)) {}

  StepAnswer best(int machines) override {
    StepAnswer out;
    try {
      const Cluster cluster = cluster_(machines);
      CostModel::Options options;
      options.cuda_graphs = question_->workload.kernels.cuda_graphs;
      options.input = question_->workload.input;
      const CostModel cost(cluster, profiles_(cluster), options);
      search(cluster, cost, out);
    } catch (const Error& e) {
      out.why_not = e.what();
    }
    return out;
  }

 private:
  void search(const Cluster& cluster, const CostModel& cost, StepAnswer& out) const {
    const int devices = cluster.device_count();
    const std::vector<StepTrial> trials = step_trials(*question_, devices, cluster.machine(0).gpus);
    if (trials.empty()) out.why_not = fmt::format("no batch within {:.0f} % of {} divides over {} GPUs", 100 * question_->batch_tolerance, question_->workload.training.global_batch, devices);
    Bytes least{0};
    for (const StepTrial& trial : trials) {
      try {
        std::optional<StepChoice> found = priced(cluster, cost, trial);
        ++out.evaluated;
        if (found->needed > found->capacity) {
          if (least == Bytes{0} || found->needed < least) {
            least = found->needed;
            if (!out.choice) out.why_not = fmt::format("does not fit into memory: {} of {} at least, with {}", to_string_iec(found->needed), to_string_iec(found->capacity), found->label);
          }
        } else if (!out.choice || found->step_time / static_cast<double>(found->global_batch) < out.choice->step_time / static_cast<double>(out.choice->global_batch)) {
          out.choice = std::move(found);
        }
      } catch (const Error& e) {
        if (out.why_not.empty()) out.why_not = e.what();
      }
    }
  }

  [[nodiscard]] std::optional<StepChoice> priced(const Cluster& cluster, const CostModel& cost, const StepTrial& trial) const {
    Workload workload = question_->workload;
    workload.training.global_batch = trial.global_batch;
    const Program program = lower(workload, trial.strategy, cluster);
    StepChoice out;
    out.strategy = trial.strategy;
    out.label = step_label(trial.strategy);
    out.global_batch = trial.global_batch;
    out.capacity = cluster.gpu(0).memory;
    const MemoryRule rule;
    for (const RoleMemory& m : rule.peaks(program)) out.needed = max(out.needed, rule.needed(m));
    if (out.needed > out.capacity) return out;
    out.step_time = estimate(program, cost, trial.strategy).step_time;
    out.mfu = step_metrics(program, cluster, workload.training, out.step_time).mfu;
    return out;
  }

  std::shared_ptr<const StepQuestion> question_;
  ClusterOf cluster_;
  ProfilesOf profiles_;
};

}  // namespace

std::unique_ptr<StepSearch> make_step_search(std::shared_ptr<const StepQuestion> question, ClusterOf cluster, ProfilesOf profiles) {
  return std::make_unique<TrialSearch>(std::move(question), std::move(cluster), std::move(profiles));
}

Bytes checkpoint_bytes(const Workload& workload) {
  Workload one = workload;
  one.training.global_batch = 1;
  StrategySettings alone;
  const Program program = lower(one, alone, 1);
  const RoleMemory memory = peak_memory(program, Bytes{0}, Bytes{0}).front();
  return memory.by_category[static_cast<std::size_t>(MemoryCategory::weights)] + memory.by_category[static_cast<std::size_t>(MemoryCategory::optimizer)];
}

}  // namespace rehearse
