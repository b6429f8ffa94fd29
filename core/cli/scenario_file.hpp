#pragma once
// A scenario's file, or a clear word about the other kinds of files that people give as one.

#include <string>
#include <vector>

#include "core/config/scenario.hpp"

namespace rehearse::cli {

/// load_scenario(), but a traced job and a profiler's trace are refused (usage) with the verb that takes them.
[[nodiscard]] Scenario load_scenario_file(const std::string& path, const std::vector<std::string>& overrides);

}  // namespace rehearse::cli
