#pragma once
// The best strategy for a workload on so many machines: a part of the space of core/search, with its bounds, its
// evaluation and its labels.
//
// Searched: tensor parallelism inside a machine, context parallelism, pipeline stages, replicas, microbatch, chunks,
// ZeRO 1 or FSDP, full recomputation or none; schedules beyond 1F1B for the size that is chosen; offload where nothing
// fits without. What the plan's file states under `strategy` is kept.
//
// Against core/search the batch is free (StepQuestion::batch_tolerance), and a plan asks for hundreds of sizes:
// README.md has what the smaller space costs.

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "core/plan/candidate.hpp"
#include "core/price/cost_model.hpp"
#include "core/strategy/strategy.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

/// What the software that trains does, plan by plan (core/framework). Empty functions: nothing of its own.
struct TrainingSoftware {
  /// Settings as it runs them.
  std::function<StrategySettings(const StrategySettings&)> as_run{};
  /// The workload that it trains under them, the batch apart; nothing where that is StepQuestion::workload.
  std::function<std::optional<Workload>(const StrategySettings&)> other_workload{};
  /// Whether it can do what they ask for.
  std::function<bool(const StrategySettings&)> admits{};
};

/// What is searched for, for one candidate.
struct StepQuestion {
  Workload workload;
  StrategySettings own;          ///< Settings that are not searched.
  std::set<std::string> fixed;   ///< Searched keys of `own` that are kept: "tp", "recompute", ...
  double batch_tolerance = 0.1;  ///< As Plan::batch_tolerance.
  TrainingSoftware software{};
};

/// One member of the space: axes resolved, the batch a multiple of dp * microbatch.
struct StepTrial {
  StrategySettings strategy;
  std::int64_t global_batch = 0;
};

/// Parts of the space.
enum class TrialKind {
  usual,     ///< 1F1B, interleaved or not, everything on the device: almost all are worked out in closed form.
  moved,     ///< The same with optimizer state, and activations too, on the host.
  schedules  ///< All other pipeline schedules.
};
/// Every member of that kind on `devices` GPUs, `per_machine` to a machine, in a fixed order. Empty where no batch
/// within the tolerance divides.
[[nodiscard]] std::vector<StepTrial> step_trials(const StepQuestion& question, int devices, int per_machine,
                                                 TrialKind kind = TrialKind::usual);

/// A cluster of so many of the candidate's machines. Throws Error as make_cluster does.
using ClusterOf = std::function<Cluster(int machines)>;
using ProfilesOf = std::function<CostModel::Profiles(const Cluster&)>;

/// The functions must outlive what is returned. `backend` plays what StepSearch::played() is asked for; empty: nothing
/// is played. `stop` may be empty; once it gives true, what was found until then is
/// the answer.
[[nodiscard]] std::unique_ptr<StepSearch> make_step_search(std::shared_ptr<const StepQuestion> question,
                                                           ClusterOf cluster, ProfilesOf profiles,
                                                           std::string backend = {}, std::function<bool()> stop = {});

/// Bytes of a checkpoint: parameters and optimizer state of the whole model, as one rank alone would hold them.
[[nodiscard]] Bytes checkpoint_bytes(const Workload& workload);

}  // namespace rehearse
