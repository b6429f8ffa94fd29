#pragma once
// What a plan must satisfy before it is lowered, whatever its strategies; each refusal gives the equation or the
// reason, and what to set.

#include "core/cluster/cluster.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse {

/// dp is dp_replicate * dp_shard; where only one of dp and dp_replicate is given, the other follows. Throws Error
/// (usage) where the three disagree.
[[nodiscard]] StrategySettings completed(StrategySettings settings);

/// Throws Error (usage) where the axes do not multiply to `ranks`.
void check_axes(const StrategySettings& settings, int ranks);

/// Throws Error (usage) for axes, precisions and lengths that the network has no use for or no lowering.
void check_workload(const Workload& workload, const StrategySettings& settings);

/// Microbatches of a replica per step, where all have as many. Throws Error (usage) where the global batch does not
/// divide.
[[nodiscard]] int microbatches_of(const Workload& workload, const StrategySettings& settings);

/// Throws Error (usage) for what these machines cannot do: one process on several machines, formats that their tensor
/// cores lack.
void check_machines(const Workload& workload, const StrategySettings& settings, const Cluster& cluster);

}  // namespace rehearse
