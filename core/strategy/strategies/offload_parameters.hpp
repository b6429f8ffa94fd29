#pragma once
// Parameters whose slices lie in host memory.

#include "core/config/settings/forward.hpp"

namespace rehearse {

/// strategy.offload_parameters.
[[nodiscard]] bool offloads_parameters(const StrategySettings& settings);

}  // namespace rehearse
