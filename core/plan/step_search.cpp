#include "core/plan/step_search.hpp"

#include <fmt/format.h>

#include "core/cost/quick_estimate.hpp"
#include "core/report/metrics.hpp"
#include "core/program/liveness.hpp"
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
    QuickEstimator alone(question_->workload, cluster, cost, {}, 1), following(question_->workload, cluster, cost, {}, 2);
    Bytes least{0};
    for (const StepTrial& trial : trials) {
      TrainingSettings training = question_->workload.training;
      training.global_batch = trial.global_batch;
      try {
        const QuickEstimate e = (hands_on(trial.strategy) ? following : alone)(trial.strategy, training);
        ++out.evaluated;
        if (e.fits()) {
          if (!out.choice || per_sequence(e.step_time, trial) < per_sequence(out.choice->step_time, *out.choice)) out.choice = choice(trial, e);
        } else if (least == Bytes{0} || e.needed < least) {
          least = e.needed;
          out.why_not = fmt::format("does not fit into memory: {} of {} at least, with {}", to_string_iec(e.needed), to_string_iec(e.capacity), step_label(trial.strategy));
        }
      } catch (const Error& e) {
        if (out.why_not.empty()) out.why_not = e.what();
      }
    }
    if (!out.choice) return;
    out.why_not.clear();
    out.choice->mfu = mfu(cluster, *out.choice);
  }

  /// A step that hands work to the next one has a period only in a row.
  [[nodiscard]] static bool hands_on(const StrategySettings& s) { return s.fsdp.enabled || s.offload == Offload::optimizer || (s.zero_stage > 0 && s.dp > 1 && s.overlap.param_gather); }

  template <class Step>
  [[nodiscard]] static double per_sequence(Seconds time, const Step& step) {
    return time.value() / static_cast<double>(step.global_batch);
  }

  [[nodiscard]] static StepChoice choice(const StepTrial& trial, const QuickEstimate& e) { return {trial.strategy, step_label(trial.strategy), trial.global_batch, e.step_time, 0, e.needed, e.capacity}; }

  [[nodiscard]] double mfu(const Cluster& cluster, const StepChoice& step) const {
    const Workload& w = question_->workload;
    const FlopsPerSecond peak = cluster.gpu(0).peak(arithmetic_of(w.training.precision)) * cluster.device_count();
    return model_flops(w.network, step.global_batch, w.training.sequence_length) / (peak * step.step_time);
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
