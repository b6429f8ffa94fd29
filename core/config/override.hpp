#pragma once
// `--set KEY=VALUE`: what it says, and putting it into a document.

#include <functional>
#include <string>

#include <nlohmann/json.hpp>

namespace rehearse {

struct Override {
  std::string key;  ///< "strategy.tp", "candidates.0.machine"
  nlohmann::json value;
  std::string origin;  ///< "--set strategy.tp=8", for messages.
};

/// From "tp=8". `full` gives the key that is meant by what stands before '='; the value is JSON where it parses as
/// JSON, else text. Throws Error (usage): no KEY=VALUE, with `example` ("strategy.tp=8") in the hint; an unfinished
/// object or list; text that is not UTF-8; what `full` throws, with the override as its place.
[[nodiscard]] Override parse_override(const std::string& text, const std::string& example,
                                      const std::function<std::string(const std::string&)>& full);

/// Puts the value where its key says. Objects that are missing on the way are made; elements of lists go by their
/// number. Throws Error (usage) where something on the way has no such member.
void place(nlohmann::json& document, const Override& change);

}  // namespace rehearse
