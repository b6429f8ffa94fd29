#pragma once
// The seam's first half: a workload and a strategy become a Program.

#include <memory>

#include "core/cluster/cluster.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse {

/// Lowers without pricing. Ranks are numbered by `strategy.placement`, fastest axis first, and rank i runs on device i.
/// Throws Error (usage) when axes do not multiply to the devices, when the schedule or a strategy refuses, or when
/// sizes do not divide.
[[nodiscard]] Program lower(const Workload& workload, const StrategySettings& strategy, const Cluster& cluster);

/// A Program whose steps can be lengthened: the same bodies, called for more microbatches.
class StepLowering {
 public:
  /// As lower() does.
  StepLowering(Workload workload, const StrategySettings& strategy, const Cluster& cluster);
  StepLowering(StepLowering&&) noexcept;
  StepLowering& operator=(StepLowering&&) noexcept;
  ~StepLowering();
  [[nodiscard]] const Program& program() const;
  /// Makes roles anew. Bodies, tensors and groups stay as they are, and more may follow them. From two microbatches to
  /// more, of replicas with equal shares.
  void set_microbatches(int count);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The same for `ranks` devices of no particular machine: settings left to the machine (Fp8Copies::automatic) are as
/// Hopper needs them.
[[nodiscard]] Program lower(const Workload& workload, const StrategySettings& strategy, int ranks);

/// `workload` with what it leaves to the machine as the cluster's GPUs need it (Transformer Engine,
/// is_non_tn_fp8_gemm_supported).
[[nodiscard]] Workload on_machines(Workload workload, const Cluster& cluster);

}  // namespace rehearse
