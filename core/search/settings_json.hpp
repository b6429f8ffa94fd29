#pragma once
// The searched settings of a plan in JSON results.

#include <nlohmann/json_fwd.hpp>

#include "core/config/settings/forward.hpp"

namespace rehearse {

/// setting_texts() as an object, numbers and truth values as such.
[[nodiscard]] nlohmann::ordered_json settings_json(const StrategySettings& settings);

}  // namespace rehearse
