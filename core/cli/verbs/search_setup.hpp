#pragma once
// Options that search, sweep, merge and plan share.

#include <string>

#include "core/api/session/search_setup.hpp"
#include "core/cli/verb.hpp"

namespace rehearse::cli {

/// fix_override() of what --fix says.
[[nodiscard]] std::string fix_of(const std::string& text);

/// "2/8" as index 1 of 8. Throws Error (usage).
[[nodiscard]] SearchShard parse_shard(const std::string& text);
/// -j: 1 to 1,024; without it as many as the machine has cores.
[[nodiscard]] int jobs_of(const Arguments& arguments);
/// A whole number from `least` on. Throws Error (usage) naming the option.
[[nodiscard]] int whole_of(const Arguments& arguments, const std::string& option, int least, int fallback);

[[nodiscard]] Option jobs_option();
[[nodiscard]] Option shard_option();

}  // namespace rehearse::cli
