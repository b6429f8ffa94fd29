#pragma once
// Unequal shares: layers of each stage, and microbatches of each replica.

#include <vector>

#include "core/model/network.hpp"
#include "core/strategy/bodies/body_builder.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse {

/// Number of the replica at `at`: dp_replicate * dp_shard of them, dp_shard varying fastest.
[[nodiscard]] int replica_of(const ExprContext& at, const StrategySettings& settings);

/// Throws Error (usage) where the layers given are not as many as the chunks, or do not add up to the network's.
void check_layers(const Network& network, const StrategySettings& settings);

/// Microbatches of every replica; `mean` each where no shares are given. Throws Error (usage) with the equation where
/// those are not one per replica, no multiples of the microbatch, or do not add up to the global batch; and where
/// another setting makes replicas meet in every microbatch, which needs as many of them on each.
[[nodiscard]] std::vector<int> microbatches_per_replica(const StrategySettings& settings, const Workload& workload,
                                                        int mean);

/// Program::first_sample: microbatch k of replica r begins with the sequences that no other microbatch has.
[[nodiscard]] ExprId first_samples(ProgramFrame& frame, const std::vector<int>& microbatches,
                                   const StrategySettings& settings);

}  // namespace rehearse
