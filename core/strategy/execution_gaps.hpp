#pragma once
// Strategies that are simulated only, so far: what keeps them from being executed is listed, not silent.

#include "core/base/registry.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse {

/// Why plans that use a strategy are not executed yet, by the strategy's name. A strategy enters itself from its own
/// file; one that is not here runs for real, which tests/parity then shows.
[[nodiscard]] Registry<std::string>& execution_gaps();

/// Empty where there is none.
[[nodiscard]] std::string execution_gap(std::string_view strategy);

/// Throws Error (unavailable) where the plan uses a strategy that has one. Its settings are complete
/// (lower_checks.hpp).
void check_executable(const PlanRequest& request);

}  // namespace rehearse
