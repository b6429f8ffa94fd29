#pragma once
// Unequal shares for unequal devices: layers per stage and microbatches per replica, so that the slowest is as fast as
// it can be.
//
// Stages: with t(s, l) the time of layer l on stage s, forward and backward, the shares minimise
//
//   max over s of sum over the layers l of stage s of t(s, l),
//
// exactly: best[s][l] = min over k of max(best[s-1][k], t(s, k..l)). Replicas: with t(r) a microbatch on replica r, M
// microbatches go one by one to where they are done first; that minimises max over r of m(r) t(r) with every replica at
// work (equal jobs on uniform machines).

#include <span>
#include <vector>

#include "core/price/cost_model.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse {

/// Layers of every stage, each at least one. `time[s][l]` is layer l on stage s; `fixed[s]` is what stage s does
/// besides (embedding, head). Throws std::invalid_argument where there are fewer layers than stages.
[[nodiscard]] std::vector<std::int64_t> balanced_layers(const std::vector<std::vector<Seconds>>& time,
                                                        const std::vector<Seconds>& fixed);

/// Microbatches of every replica, each at least one, `total` of them in all. Throws std::invalid_argument where there
/// are fewer than replicas.
[[nodiscard]] std::vector<std::int64_t> balanced_microbatches(const std::vector<Seconds>& time, std::int64_t total);

/// `settings` with the shares that its `balance` asks for, as far as none are given, by the prices of `cost`. `devices`
/// are those of the ranks; empty: rank i on device i. Throws Error (usage) for what lower() refuses, for a balance of
/// layers with several chunks per stage, and for one of batches with fewer microbatches than replicas.
[[nodiscard]] StrategySettings balanced(const Workload& workload, const StrategySettings& settings,
                                        const CostModel& cost, std::span<const DeviceId> devices = {});

}  // namespace rehearse
