#pragma once
// Parameters that are updated while backward runs.

#include "core/strategy/strategy.hpp"

namespace rehearse {

/// strategy.optimizer_in_backward: each parameter is updated as soon as its gradient is there, which is freed at once
/// (PyTorch's apply_optimizer_in_backward, torchtune's optimizer_in_bwd). Of gradients no more than a few blocks' are
/// alive.
[[nodiscard]] bool updates_in_backward(const StrategySettings& settings);

/// Throws Error (usage) where gradients are complete, or looked at, only after backward.
void check_update_in_backward(const PlanRequest& request);

}  // namespace rehearse
