#pragma once
// simulate --together.

#include "core/cli/verb.hpp"

namespace rehearse::cli {

/// Options that only several scenarios together take.
[[nodiscard]] std::vector<Option> together_options();
/// Throws Error (usage) where one of them stands without --together, or beside it what only one scenario takes.
void check_together(const Arguments& arguments);
int simulate_together(const Arguments& arguments, Console& console);

}  // namespace rehearse::cli
