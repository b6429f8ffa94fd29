#pragma once
// Gradients that have storage for a part of the step only: parameters that are updated while backward runs, and
// gradients that are dropped by their update.

#include "core/strategy/strategy.hpp"

namespace rehearse {

/// strategy.optimizer_in_backward: each parameter is updated as soon as its gradient is there, which is freed at once
/// (PyTorch's apply_optimizer_in_backward, torchtune's optimizer_in_bwd). Of gradients no more than a few blocks' are
/// alive.
[[nodiscard]] bool updates_in_backward(const StrategySettings& settings);

/// strategy.fresh_gradients, whatever the rest of the settings.
[[nodiscard]] bool drops_gradients(const StrategySettings& settings);

/// Whether gradients get their storage in backward and lose it in the update (PyTorch's zero_grad with set_to_none):
/// asked for by strategy.fresh_gradients, and neither an earlier microbatch nor a bucket holds them.
[[nodiscard]] bool fresh_gradients(const PlanRequest& request);

/// Throws Error (usage) where gradients are complete, or looked at, only after backward.
void check_update_in_backward(const PlanRequest& request);

}  // namespace rehearse
