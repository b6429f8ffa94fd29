#pragma once
// Error figures as every JSON answer has them.

#include <nlohmann/json_fwd.hpp>

#include "core/scoreboard/errors.hpp"

namespace rehearse {

/// {median_abs_error, mean_abs_error, p90_abs_error, worst_abs_error, bias}, shares of what was measured; all 0 for no
/// rows.
[[nodiscard]] nlohmann::ordered_json error_figures_json(const ErrorStatistics& errors);

}  // namespace rehearse
