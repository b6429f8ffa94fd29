#pragma once
// Least memory of a plan, from what one of its stages has.
//
//   memory >= 1.08 (states, as far as the plan keeps them on the device + activations that stay there) + framework
//
// States are divided as the plan divides them. Those that FSDP gathers once and keeps for the step's passes (several
// stages), and gradients that add up before they are scattered, are whole beside as many activations as are alive then.

#include <vector>

#include "core/schedule/schedule.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse {

/// Bytes are multiplied by this: what else a pass holds for a moment is not in them, and stages differ a little.
inline constexpr double kMemoryMargin = 0.97;

/// Of the most activations that are alive on a stage, those beside all of its weights, or its weights and gradients,
/// whole.
struct WholeBeside {
  double weights = 0, gradients = 0;
};

/// Weights are whole from the first forward of every chunk to the first chunk's last backward, gradients from every
/// chunk's first backward on.
[[nodiscard]] WholeBeside whole_beside(const Schedule& schedule, const PipelineShape& shape, int stage);
/// The same for as few microbatches as say it for any number: with more, no smaller share is alive then.
[[nodiscard]] WholeBeside least_whole_beside(const Schedule& schedule, const PipelineShape& shape, int stage);

/// What a microbatch keeps on the device in a chunk of so many layers: between forward and backward, and between the
/// halves of backward.
struct KeptInChunk {
  Bytes forward, halved;
};
/// The most that the first, the last or a middle stage keeps at once, for as few microbatches as least_whole_beside()
/// asks for. `chunks`: in model order.
[[nodiscard]] Bytes most_kept(const Schedule& schedule, const PipelineShape& shape,
                              const std::vector<KeptInChunk>& chunks);

/// Of activations between forward and backward, what stays on the device. `layers`: of the network.
[[nodiscard]] double kept_share(const StrategySettings& settings, int layers);

/// Of one stage: states undivided, and the most activations that stay on the device.
struct StageState {
  Bytes weights, gradients, optimizer, activations;
  bool experts = false;  ///< Some of it is of experts.
};

/// Layers of a chunk of `layers` whose activations go to host memory (strategy/activation_offload.hpp).
[[nodiscard]] int moved_layers(const StrategySettings& settings, int layers);
[[nodiscard]] Bytes least_memory(const StrategySettings& settings, const StageState& stage, const WholeBeside& beside);

}  // namespace rehearse
