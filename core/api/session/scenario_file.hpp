#pragma once
// Scenarios as people give them: a file, or a clear word about the other kinds of files that are taken for one; a
// struct, with overrides.

#include <string>
#include <vector>

#include "core/config/scenario.hpp"

namespace rehearse {

/// load_scenario(), but a plan's file is read as plan_scenario() does (core/plan), and a traced job and a profiler's
/// trace are refused (usage) with the verb that takes them. A relative path that names no file here names a shipped
/// one: "scenarios/gpt2_v100.json" works wherever the program is installed. A `path` that is_json_text() is the
/// scenario itself.
[[nodiscard]] Scenario load_scenario_file(const std::string& path, const std::vector<std::string>& overrides = {});

/// `scenario` with `overrides` ("strategy.tp=8"), each checked as load_scenario() does. Throws Error (usage).
[[nodiscard]] Scenario with_overrides(const Scenario& scenario, const std::vector<std::string>& overrides);

}  // namespace rehearse
