#pragma once
// The best strategy for a workload on so many machines: a small space, every member of which is priced.
//
// Tensor parallelism inside a machine, pipeline stages, replicas, microbatch, chunks, ZeRO 1 or FSDP, full recomputation or none. What the plan's file
// states under `strategy` is kept.

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/cost/cost_model.hpp"
#include "core/plan/candidate.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse {

/// What is searched for, the same for every candidate.
struct StepQuestion {
  Workload workload;
  StrategySettings own;          ///< Settings that are not searched.
  std::set<std::string> fixed;   ///< Searched keys of `own` that are kept: "tp", "recompute", ...
  double batch_tolerance = 0.1;  ///< As Plan::batch_tolerance.
};

/// One member of the space: axes resolved, the batch a multiple of dp * microbatch.
struct StepTrial {
  StrategySettings strategy;
  std::int64_t global_batch = 0;
};

/// Every member on `devices` GPUs, `per_machine` to a machine, in a fixed order. Empty where no batch within the tolerance divides.
[[nodiscard]] std::vector<StepTrial> step_trials(const StepQuestion& question, int devices, int per_machine);

/// "tp=8 pp=2 dp=26 mb=1 interleaved_1f1b(5) zero1 recompute=full".
[[nodiscard]] std::string step_label(const StrategySettings& settings);

/// A cluster of so many of the candidate's machines. Throws Error as make_cluster does.
using ClusterOf = std::function<Cluster(int machines)>;
using ProfilesOf = std::function<CostModel::Profiles(const Cluster&)>;

/// Both functions must outlive what is returned.
[[nodiscard]] std::unique_ptr<StepSearch> make_step_search(std::shared_ptr<const StepQuestion> question, ClusterOf cluster, ProfilesOf profiles);

/// Bytes of a checkpoint: parameters and optimizer state of the whole model, as one rank alone would hold them.
[[nodiscard]] Bytes checkpoint_bytes(const Workload& workload);

}  // namespace rehearse
