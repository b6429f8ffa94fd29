#pragma once
// Time and memory of many scenarios of one workload on one cluster: what a search asks for.
//
//   QuickEstimator quick(workload, cluster, cost);
//   for (const StrategySettings& s : space) consider(quick(s));
//
// A scenario is put together from what few things decide:
//
//   blocks: a block's forward and backward, pairs of them, its messages, and what it keeps;
//     by tp, cp, microbatch, recomputation, sequence parallelism, ...
//   mesh: gradient buckets, what follows the last pass, state held, messages between stages;
//     by tp, pp, dp, ZeRO, bucket, overlap, ...
//   order: which pass waits for which, and how many are alive;
//     by schedule, pp, virtual stages, microbatches
//
// Each is read off a small lowered Program once per distinct value and kept; nothing of the whole is. What is left per
// scenario is the schedule's recurrence over the passes, the tail, and the fullest moment of three stages. Long
// pipelines and many microbatches are extrapolated from shorter ones, as times grow evenly with both. Scenarios that
// are not made of layers in whole passes are lowered and priced in full (`QuickEstimate::closed_form` says so). A
// test holds all of it to the analytic back end and to peak_memory().

#include <memory>
#include <optional>

#include "core/play/backend.hpp"
#include "core/price/cost_model.hpp"
#include "core/price/memory_rule.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse {

struct QuickTables;
/// Empty ones, to be shared. They take about `most` bytes of the host's memory before those not asked for lately are
/// forgotten; 0: an eighth of what this process may take.
[[nodiscard]] std::shared_ptr<QuickTables> quick_tables(std::size_t most = 0);

/// One microbatch through one layer, with the communication that its kernels wait for.
struct LayerPasses {
  Seconds forward, backward;
  Bytes kept;  ///< By the forward for the backward.
  /// No communication of theirs leaves a node: copies of what is whole for a moment (CostModel::copy_of_whole) add to
  /// them.
  bool closed = false;
};

/// Time and memory of one scenario.
struct QuickEstimate {
  Seconds step_time;      ///< As Estimate::step_time.
  Breakdown breakdown;    ///< Of the slowest stage; adds up to `step_time`.
  int slowest_stage = 0;  ///< Index into Program::roles.
  /// Of the GPU that is fullest: the role whose `needed` is the largest part of its capacity.
  /// `peak_at` and host memory are not filled in the closed form.
  RoleMemory memory;
  Bytes needed;              ///< By the MemoryRule.
  Bytes capacity;            ///< Of that GPU.
  bool closed_form = false;  ///< false: this scenario was lowered and priced in full.
  LayerPasses layer{};       ///< In the closed form only.
  bool host_fits = true;     ///< So does what ranks keep in the memory of their nodes.
  [[nodiscard]] bool fits() const { return needed <= capacity && host_fits; }
};

/// Whether passes gather parameters or reduce slices of gradients. Tables of such plans take long to make.
[[nodiscard]] bool shards_in_passes(const StrategySettings& settings);

/// Not to be shared between threads: it keeps what it has worked out. The answer to a scenario does not depend on those
/// asked before. `cluster` and `cost` must outlive it.
class QuickEstimator {
 public:
  /// `base` gives network, kernels and input. `steps` as in RunOptions: 1 is a step on its own, more the period of
  /// steps that follow each other.
  /// `tables`: those of other estimators of the same workload, cluster, prices and rule, on whatever threads; what one
  /// has worked out the others find. Null: tables of its own.
  QuickEstimator(Workload base, const Cluster& cluster, const CostModel& cost, MemoryRule rule = {},
                 int steps = RunOptions{}.steps, std::shared_ptr<QuickTables> tables = nullptr);
  ~QuickEstimator();
  QuickEstimator(QuickEstimator&&) noexcept;

  /// Axes resolved: dp, tp, ... multiply to the cluster's GPUs. Throws Error as lower() does for scenarios that cannot
  /// be.
  QuickEstimate operator()(const StrategySettings& strategy, const TrainingSettings& training);
  /// The same with the base workload's training.
  QuickEstimate operator()(const StrategySettings& strategy);
  /// The same where the closed form knows the scenario, and nothing where it would be lowered in full.
  /// `layers`, where not 0: with so many equal layers instead of the network's; nothing where its layers are of several
  /// kinds.
  std::optional<QuickEstimate> closed_form(const StrategySettings& strategy, int layers = 0);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rehearse
