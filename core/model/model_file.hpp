#pragma once
// The text of a model's configuration.

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace rehearse {

/// A config.json as Python writes it: Infinity and NaN are null. Throws Error (usage) as parse_json() does.
[[nodiscard]] nlohmann::json read_model_file(const std::string& path);

}  // namespace rehearse
