#pragma once
// Short names of a scenario's keys.

#include <string>

namespace rehearse {

/// The key that is meant: `key` itself where the format has it (or where it names something inside of `model`), the
/// present spelling of a former one, "framework.name" for "framework", else
/// the only one, or the outermost one, that ends in it: "tp" is "strategy.tp", "fsdp.enabled" is
/// "strategy.fsdp.enabled". Throws Error (usage) where there is none, with what may have been meant, where several are
/// equally near to the outside, and for groups, with their keys.
[[nodiscard]] std::string full_key(const std::string& key);

}  // namespace rehearse
