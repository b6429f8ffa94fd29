#pragma once
// Over how many ranks ZeRO and FSDP divide weights, gradients and optimizer state.

#include "core/strategy/strategy.hpp"

namespace rehearse {

/// Of one stage's state: a device holds the whole over these. 1: each replica has all of it.
struct StateShards {
  double weights = 1, gradients = 1, optimizer = 1;
  bool optimizer_on_device = true;  ///< Not in host memory.
  /// false: in host memory, or gathered from the optimizer's master copy, where there is one.
  bool slices_of_weights = true;
  bool gradients_persist = true;  ///< false: they may go as soon as they are there.
  bool weights_stay = false;      ///< Whole from the first pass of a step to the last.
  /// Whole from the first backward to the last, as they are divided after that one only.
  bool gradients_stay = false;
};

/// Axes resolved. Where a network with experts has more or fewer copies of them than replicas, the divisor is that of
/// what is divided most. Rajbhandari et al. 2020 (ZeRO: stage 1 divides optimizer state, 2 gradients too, 3 weights
/// too); FSDP divides all three over dp_shard and cp.
[[nodiscard]] StateShards state_shards(const StrategySettings& settings, bool experts);

/// What of a stage's weights, gradients and optimizer state lies on each device, each given undivided.
[[nodiscard]] Bytes state_on_device(const StrategySettings& settings, bool experts, Bytes weights, Bytes gradients,
                                    Bytes optimizer);

}  // namespace rehearse
