#include "core/plan/step_search.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "core/cost/quick_estimate.hpp"
#include "core/report/metrics.hpp"
#include "core/program/liveness.hpp"
#include "core/strategy/lower.hpp"

namespace rehearse {

namespace {

/// What a step's passes take at least: one microbatch through all layers on the ranks that divide them, as measured on a trial without stages.
struct WholePass {
  bool known = false;  ///< False: nothing is bounded.
  Seconds work;        ///< Forward and backward, with the communication inside layers.
  Bytes weights, gradients, optimizer, activations;
};

/// What stages and margins can make up for: unequal stages, first microbatches that accumulate into nothing.
constexpr double kTimeMargin = 0.97, kMemoryMargin = 0.9;

struct Bounded {
  StepTrial trial;
  double per_sequence = 0;  ///< Seconds that it cannot beat.
};

/// With w the work of a microbatch, m microbatches, p stages and v chunks a step takes (m + (p - 1) / v) w / p at least: passes one after the other and the
/// bubble of 1F1B (Narayanan et al. 2021, section 2.2). For schedules that fill the bubble only the passes count.
Seconds time_bound(const WholePass& pass, const StepTrial& t) {
  const StrategySettings& s = t.strategy;
  const double microbatches = static_cast<double>(t.global_batch) / (s.dp * static_cast<double>(s.microbatch));
  const bool bubble = s.schedule == "1f1b" || s.schedule == "interleaved_1f1b";
  return kTimeMargin * (microbatches + (bubble ? (s.pp - 1.0) / s.virtual_stages : 0)) / s.pp * pass.work;
}

/// The first stage keeps as many microbatches as there are stages, each a stage's share.
bool may_fit(const WholePass& pass, const StepTrial& t, Bytes capacity) {
  const StrategySettings& s = t.strategy;
  const double microbatches = static_cast<double>(t.global_batch) / (s.dp * static_cast<double>(s.microbatch));
  const double shards = s.fsdp.enabled || s.zero_stage == 3 ? s.dp : 1;
  Bytes held = (pass.weights + pass.gradients / (s.zero_stage == 2 ? s.dp : 1.0)) / shards;
  if (s.offload == Offload::none) held += pass.optimizer / (s.zero_stage > 0 ? s.dp : shards) + pass.activations * std::min<double>(microbatches, s.pp);
  return kMemoryMargin * held / s.pp <= capacity;
}

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
    const std::vector<Bounded> bounded = by_bound(alone, trials, cluster.gpu(0).memory, out);
    for (const Bounded& b : bounded) {
      if (out.choice && b.per_sequence >= per_sequence(out.choice->step_time, *out.choice)) break;
      consider(hands_on(b.trial.strategy) ? following : alone, b.trial, out);
    }
    if (!out.choice) return;
    out.why_not.clear();
    out.choice->mfu = mfu(cluster, *out.choice);
  }

  /// The trials that may fit, the one with the lowest bound first.
  [[nodiscard]] std::vector<Bounded> by_bound(QuickEstimator& quick, const std::vector<StepTrial>& trials, Bytes capacity, StepAnswer& out) const {
    std::map<std::tuple<int, int, std::int64_t, Recompute>, WholePass> passes;
    std::vector<Bounded> bounded;
    for (const StepTrial& t : trials) {
      const StrategySettings& s = t.strategy;
      const auto [pass, fresh] = passes.try_emplace({s.tp, s.ep, s.microbatch, s.recompute});
      if (fresh) pass->second = whole_pass(quick, t);
      if (!pass->second.known) bounded.push_back({t, 0});
      else if (may_fit(pass->second, t, capacity)) bounded.push_back({t, per_sequence(time_bound(pass->second, t), t)});
      else if (out.why_not.empty()) out.why_not = fmt::format("does not fit into {} of memory", to_string_iec(capacity));
    }
    std::stable_sort(bounded.begin(), bounded.end(), [](const Bounded& a, const Bounded& b) { return a.per_sequence < b.per_sequence; });
    return bounded;
  }

  /// From the trial without stages and sharding, one microbatch to a replica.
  [[nodiscard]] WholePass whole_pass(QuickEstimator& quick, StepTrial t) const {
    StrategySettings& s = t.strategy;
    s.dp *= s.pp;
    s.dp_replicate = s.dp;
    s.dp_shard = s.pp = s.virtual_stages = 1;
    s.schedule = "1f1b";
    s.uneven_layers = s.fsdp.enabled = s.overlap.param_gather = false;
    s.zero_stage = 0;
    s.offload = Offload::none;
    s.layers_per_stage.clear();
    t.global_batch = s.dp * s.microbatch;
    WholePass out;
    try {
      const QuickEstimate e = quick(s, training(t));
      for (const TimeCategory c : {TimeCategory::matmul, TimeCategory::attention, TimeCategory::memory_bound, TimeCategory::loss, TimeCategory::recompute, TimeCategory::exposed_tp}) out.work += e.breakdown[c];
      const auto of = [&e](MemoryCategory c) { return e.memory.by_category[static_cast<std::size_t>(c)]; };
      out.weights = of(MemoryCategory::weights);
      out.gradients = of(MemoryCategory::gradients);
      out.optimizer = of(MemoryCategory::optimizer);
      out.activations = of(MemoryCategory::activations);
      out.known = true;
    } catch (const Error&) {
      // This one may be refused where the trial is not: then nothing is known.
    }
    return out;
  }

  void consider(QuickEstimator& quick, const StepTrial& trial, StepAnswer& out) const {
    ++out.evaluated;
    try {
      const QuickEstimate e = quick(trial.strategy, training(trial));
      if (!e.fits()) {
        if (!out.choice) out.why_not = fmt::format("does not fit into memory, {} of {} for example with {}", to_string_iec(e.needed), to_string_iec(e.capacity), step_label(trial.strategy));
      } else if (!out.choice || per_sequence(e.step_time, trial) < per_sequence(out.choice->step_time, *out.choice)) {
        out.choice = choice(trial, e);
      }
    } catch (const Error& e) {
      if (out.why_not.empty()) out.why_not = e.what();
    }
  }

  [[nodiscard]] TrainingSettings training(const StepTrial& trial) const {
    TrainingSettings out = question_->workload.training;
    out.global_batch = trial.global_batch;
    return out;
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
