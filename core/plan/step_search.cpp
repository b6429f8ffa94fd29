#include "core/plan/step_search.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/estimate/quick/quick_estimate.hpp"
#include "core/play/metrics.hpp"
#include "core/program/liveness.hpp"
#include "core/search/bounds/bounds.hpp"
#include "core/search/space.hpp"
#include "core/strategy/lower.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

/// Strategies of the slower kinds that are tried for one size, least bound first: the bounds of offload know nothing of
/// copies, those of mixed machines only the fastest.
constexpr int kMostLowered = 64, kMostSchedules = 4;
/// Steps of one size that are told apart for playing: playing takes as long as there are devices.
std::size_t most_played_steps(int devices) { return static_cast<std::size_t>(std::clamp(16'384 / devices, 4, 16)); }

struct Bounded {
  StepTrial trial;
  double per_sequence = 0;  ///< Seconds that it cannot beat.
};

/// Machines that are all of the fastest kind: what they cannot do, a set that mixes them with others cannot either.
Cluster of_the_fastest(const Cluster& cluster, Precision precision) {
  const auto& parts = cluster.parts();
  const auto fastest = std::max_element(parts.begin(), parts.end(), [&](const auto& a, const auto& b) {
    return a.gpu->peak(arithmetic_of(precision)) < b.gpu->peak(arithmetic_of(precision));
  });
  Cluster::Part all = *fastest;
  all.nodes = cluster.device_count() / all.machine->gpus;
  return {cluster.name(), {all}, cluster.network()};
}

/// A mixed set's bounds.
struct Fastest {
  Fastest(const Workload& workload, const StrategySettings& own, const Cluster& mixed, const ProfilesOf& profiles,
          const CostModel::Options& options)
      : cluster(of_the_fastest(mixed, workload.training.precision)),
        cost(cluster, profiles(cluster), options),
        problem{workload, cluster, cost, own, cluster.device_count(), {}} {}
  Cluster cluster;
  CostModel cost;
  SearchProblem problem;
};

/// The least number of GPUs that any machine of the cluster is a multiple of.
int gpus_together(const Cluster& cluster) {
  int out = 0;
  for (const Cluster::Part& part : cluster.parts()) out = std::gcd(out, part.machine->gpus);
  return out;
}

Bytes least_memory(const Cluster& cluster) {
  Bytes out = cluster.gpu(0).usable_memory;
  for (const Cluster::Part& part : cluster.parts()) out = min(out, part.gpu->usable_memory);
  return out;
}

template <class Step>
double per_sequence(Seconds time, const Step& step) {
  return time.value() / static_cast<double>(step.global_batch);
}

using KnownPasses = std::map<PassKey, PassCosts>;

/// All trials on one cluster.
class SizeSearch {
 public:
  SizeSearch(const StepQuestion& question, const Cluster& cluster, const CostModel& cost, const ProfilesOf& profiles,
             KnownPasses& inside, const std::function<bool()>& stop)
      : question_(question),
        workload_(on_machines(question.workload, cluster)),
        cluster_(cluster),
        inside_(inside),
        stop_(stop),
        problem_{workload_,
                 cluster,
                 cost,
                 question.own,
                 cluster.device_count(),
                 [this](const StrategySettings& s) { return lowered(s); },
                 question.software.as_run,
                 [this](const StrategySettings& s) { return !other_workload(s); }},
        tables_(quick_tables()),
        alone_(workload_, cluster, cost, {}, 1, tables_),
        following_(workload_, cluster, cost, {}, 2, tables_),
        most_played_(most_played_steps(cluster.device_count())) {
    if (cluster.parts().size() > 1)
      fastest_ = std::make_unique<Fastest>(workload_, question.own, cluster, profiles, cost.options());
  }

  void run(bool thorough, StepAnswer& out) {
    const std::vector<StepTrial> usual = trials(TrialKind::usual);
    if (usual.empty())
      out.why_not = fmt::format("no batch within {:.0f} % of {} divides over {} GPUs", 100 * question_.batch_tolerance,
                                question_.workload.training.global_batch, cluster_.device_count());
    consider_all(usual, fastest_ ? kMostLowered : usual.size(), out);
    if (thorough) consider_all(trials(TrialKind::schedules), kMostSchedules, out);
    // Copies to the host take time that nothing gives back: they are for what does not fit otherwise.
    if (!out.choice) consider_all(trials(TrialKind::moved), kMostLowered, out);
    if (!out.choice) return;
    out.why_not.clear();
    out.choice->mfu = mfu(*out.choice);
    for (StepChoice& other : out.others) other.mfu = mfu(other);
    if (!thorough) out.others.clear();
  }

  /// Of the choice and the next best those that may be the best when played, in order of their closed forms.
  [[nodiscard]] std::optional<StepChoice> played(const StepAnswer& answer, const std::string& backend) {
    std::optional<StepChoice> best;
    std::string why_not;
    std::vector<const StepChoice*> all{&*answer.choice};
    for (const StepChoice& other : answer.others) all.push_back(&other);
    for (const StepChoice* c : all) {
      if (best && per_sequence(c->step_time, *c) >= per_sequence(best->step_time, *best)) break;
      workload_.training.global_batch = c->global_batch;
      Evaluation e;
      e.fits = true;
      play(problem_, c->strategy, backend, e, stop_);
      if (!e.played) {
        if (why_not.empty()) why_not = e.refusal;
        continue;
      }
      if (best && per_sequence(*e.played, *c) >= per_sequence(best->step_time, *best)) continue;
      best = *c;
      best->closed_form = c->step_time;
      best->step_time = *e.played;
      best->mfu = mfu(*best);
      best->played_by = backend;
    }
    if (!best) {
      best = *answer.choice;
      best->why_not_played = std::move(why_not);
    }
    return best;
  }

 private:
  /// Of a mixed set, with equal shares and with shares by speed.
  [[nodiscard]] std::vector<StepTrial> trials(TrialKind kind) const {
    std::vector<StepTrial> out = step_trials(question_, cluster_.device_count(), gpus_together(cluster_), kind);
    if (const auto& admits = question_.software.admits)
      std::erase_if(out, [&admits](const StepTrial& t) { return !admits(t.strategy); });
    if (!fastest_ || question_.fixed.contains("balance")) return out;
    for (std::size_t i = out.size(); i-- > 0;)
      if (out[i].strategy.virtual_stages == 1 && !out[i].strategy.fsdp.enabled) {
        out.push_back(out[i]);
        out.back().strategy.balance = Balance::automatic;
      }
    return out;
  }

  void consider_all(const std::vector<StepTrial>& trials, std::size_t most, StepAnswer& out) {
    std::size_t tried = 0;
    for (const Bounded& b : by_bound(trials, out)) {
      if (tried >= most || (stop_ && stop_()) ||
          (out.choice && b.per_sequence >= per_sequence(out.choice->step_time, *out.choice)))
        break;
      tried += consider(b.trial, out);
    }
  }

  /// The trials that may fit, the one with the lowest bound first.
  [[nodiscard]] std::vector<Bounded> by_bound(const std::vector<StepTrial>& trials, StepAnswer& out) {
    const Bytes capacity = least_memory(cluster_);
    std::vector<Bounded> bounded;
    for (const StepTrial& t : trials) {
      const StrategySettings run = problem_.run(t.strategy);
      // What trains another workload under them is bounded by nothing that is known of this one.
      const Bound least = other_workload(t.strategy) ? Bound{} : bound(passes_of(run), run, t.global_batch);
      if (least.memory <= capacity)
        bounded.push_back({t, per_sequence(least.step_time, t)});
      else if (out.why_not.empty())
        out.why_not = fmt::format("does not fit into {} of memory", to_string_iec(capacity));
    }
    std::stable_sort(bounded.begin(), bounded.end(),
                     [](const Bounded& a, const Bounded& b) { return a.per_sequence < b.per_sequence; });
    return bounded;
  }

  [[nodiscard]] const PassCosts& passes_of(const StrategySettings& s) {
    // Inside one machine a pass takes what it takes, however many machines there are.
    const bool inside = !fastest_ && s.tp * s.cp <= gpus_together(cluster_) && workload_.network.routing() == nullptr;
    const auto [at, fresh] = (inside ? inside_ : passes_).try_emplace(pass_key(s));
    if (fresh) at->second = pass_costs(fastest_ ? fastest_->problem : problem_, s);
    return at->second;
  }

  /// Whether it is a legal one.
  bool consider(const StepTrial& trial, StepAnswer& out) {
    ++out.evaluated;
    const Evaluation e = evaluated(trial);
    if (!e.refusal.empty()) {
      if (out.why_not.empty()) out.why_not = e.refusal;
    } else if (!e.fits) {
      if (!out.choice)
        out.why_not = fmt::format("does not fit into memory, {} of {} for example with {}", to_string_iec(e.needed),
                                  to_string_iec(e.capacity), plan_label(trial.strategy));
    } else {
      StepChoice found{trial.strategy, plan_label(trial.strategy), trial.global_batch, e.step_time, 0, e.needed,
                       e.capacity};
      found.allocated = e.allocated;
      keep(std::move(found), out);
    }
    return e.refusal.empty();
  }

  /// The best as the choice, some more as others.
  void keep(StepChoice found, StepAnswer& out) const {
    const auto time = [](const StepChoice& c) { return per_sequence(c.step_time, c); };
    if (!out.choice) {
      out.choice = std::move(found);
      return;
    }
    if (time(found) < time(*out.choice)) std::swap(found, *out.choice);
    const auto place = std::upper_bound(out.others.begin(), out.others.end(), found,
                                        [&](const StepChoice& a, const StepChoice& b) { return time(a) < time(b); });
    out.others.insert(place, std::move(found));
    if (out.others.size() >= most_played_) out.others.pop_back();
  }

  /// By the quick estimator, which keeps what sizes of batches have in common, but for what it does not know: host
  /// memory and unequal shares.
  [[nodiscard]] Evaluation evaluated(const StepTrial& trial) {
    workload_.training.global_batch = trial.global_batch;
    const StrategySettings s = problem_.run(trial.strategy);
    if (s.offload != Offload::none || s.balance != Balance::none || other_workload(trial.strategy))
      return evaluate(problem_, trial.strategy);
    Evaluation out;
    try {
      const QuickEstimate e = (steps_in_period(s, workload_.input) > 1 ? following_ : alone_)(s, workload_.training);
      out.fits = e.fits();
      out.needed = e.needed;
      out.allocated = MemoryRule().allocated(e.memory);
      out.capacity = e.capacity;
      out.step_time = e.step_time;
    } catch (const Error& e) {
      out.refusal = e.what();
    }
    return out;
  }

  [[nodiscard]] std::optional<Workload> other_workload(const StrategySettings& settings) const {
    if (!question_.software.other_workload) return {};
    std::optional<Workload> out = question_.software.other_workload(settings);
    if (out) out->training.global_batch = workload_.training.global_batch;
    return out;
  }

  [[nodiscard]] Program lowered(const StrategySettings& settings) const {
    const std::optional<Workload> other = other_workload(settings);
    return lower(other ? *other : workload_, problem_.run(settings), cluster_);
  }

  [[nodiscard]] double mfu(const StepChoice& step) const {
    const DType type = arithmetic_of(workload_.training.precision);
    FlopsPerSecond peak;
    for (const Cluster::Part& part : cluster_.parts()) peak += part.gpu->peak(type) * (part.machine->gpus * part.nodes);
    return model_flops(workload_.network, step.global_batch, workload_.training.sequence_length) /
           (peak * step.step_time);
  }

  const StepQuestion& question_;
  Workload workload_;  ///< With the batch of the trial at hand.
  const Cluster& cluster_;
  KnownPasses& inside_;  ///< Of sizes before, too.
  KnownPasses passes_;
  const std::function<bool()>& stop_;
  SearchProblem problem_;
  std::unique_ptr<Fastest> fastest_;  ///< Of a set that mixes machines.
  std::shared_ptr<QuickTables> tables_;
  QuickEstimator alone_, following_;
  std::size_t most_played_;
};

class TrialSearch final : public StepSearch {
 public:
  TrialSearch(std::shared_ptr<const StepQuestion> question, ClusterOf cluster, ProfilesOf profiles, std::string backend,
              std::function<bool()> stop)
      : question_(std::move(question)),
        cluster_(std::move(cluster)),
        profiles_(std::move(profiles)),
        backend_(std::move(backend)),
        stop_(std::move(stop)) {}

  StepAnswer best(int machines, bool thorough) override {
    StepAnswer out;
    try {
      on(machines, [&](SizeSearch& size) { size.run(thorough, out); });
    } catch (const Error& e) {
      out.why_not = e.what();
    }
    return out;
  }

  std::optional<StepChoice> played(int machines, const StepAnswer& answer) override {
    std::optional<StepChoice> out;
    if (!backend_.empty() && answer.choice)
      on(machines, [&](SizeSearch& size) { out = size.played(answer, backend_); });
    return out;
  }

 private:
  template <class Work>
  void on(int machines, const Work& work) {
    const Cluster cluster = cluster_(machines);
    CostModel::Options options = CostModel::Options::of(question_->workload.kernels);
    options.input = question_->workload.input;
    const CostModel cost(cluster, profiles_(cluster), options);
    SizeSearch size(*question_, cluster, cost, profiles_, inside_, stop_);
    work(size);
  }

  std::shared_ptr<const StepQuestion> question_;
  ClusterOf cluster_;
  ProfilesOf profiles_;
  std::string backend_;
  std::function<bool()> stop_;
  KnownPasses inside_;
};

}  // namespace

std::unique_ptr<StepSearch> make_step_search(std::shared_ptr<const StepQuestion> question, ClusterOf cluster,
                                             ProfilesOf profiles, std::string backend, std::function<bool()> stop) {
  return std::make_unique<TrialSearch>(std::move(question), std::move(cluster), std::move(profiles), std::move(backend),
                                       std::move(stop));
}

Bytes checkpoint_bytes(const Workload& workload) {
  Workload one = workload;
  one.training.global_batch = 1;
  StrategySettings alone;
  const Program program = lower(one, alone, 1);
  const RoleMemory memory = peak_memory(program, Bytes{0}, Bytes{0}).front();
  return nth(memory.by_category, MemoryCategory::weights) + nth(memory.by_category, MemoryCategory::optimizer);
}

}  // namespace rehearse
