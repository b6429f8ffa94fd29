#pragma once
// In which types an optimizer keeps what it keeps between steps (training.optimizer_states, training.master_weights),
// and which back end can run that.

#include "core/model/network.hpp"
#include "core/strategy/bodies/body_builder.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

/// How the moments of one parameter are stored.
struct MomentStorage {
  DType dtype = DType::fp32;
  /// Elements that share an fp32 scale; 0: they have none.
  std::int64_t block = 0;
};

/// `elements`: of the slice that a rank updates. `embedding`: the table of an embedding.
[[nodiscard]] MomentStorage moment_storage(const Workload& workload, const ProgramFrame& frame, std::int64_t elements,
                                           bool embedding);
/// That of the master copy beside 16-bit weights.
[[nodiscard]] DType master_dtype(const Workload& workload);

/// The scales of moments like `moment`: one for each block of the last dimension.
[[nodiscard]] Tensor scales_of(ProgramFrame& frame, Tensor moment, std::int64_t block);

/// Throws Error (usage) for types that the update rule or the strategy does not take.
void check_optimizer_state(const Workload& workload, const StrategySettings& settings);

/// Why back ends cannot execute it; empty where they can.
[[nodiscard]] std::string optimizer_state_gap(const Workload& workload);

}  // namespace rehearse
