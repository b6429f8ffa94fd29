#pragma once
// One function per verb; each in its own file.

#include "core/cli/verb.hpp"

namespace rehearse::cli {

[[nodiscard]] Verb simulate_verb();
[[nodiscard]] Verb estimate_verb();
[[nodiscard]] Verb memory_verb();
[[nodiscard]] Verb compare_verb();
[[nodiscard]] Verb search_verb();
[[nodiscard]] Verb sweep_verb();
[[nodiscard]] Verb merge_verb();
[[nodiscard]] Verb plan_verb();
[[nodiscard]] Verb fleet_verb();
[[nodiscard]] Verb lesson_verb();
[[nodiscard]] Verb task_verb();
[[nodiscard]] Verb replay_verb();
[[nodiscard]] Verb run_verb();
[[nodiscard]] Verb calibrate_verb();
[[nodiscard]] Verb validate_verb();
[[nodiscard]] Verb topology_verb();
[[nodiscard]] Verb import_verb();
[[nodiscard]] Verb export_verb();
[[nodiscard]] Verb collectives_verb();
[[nodiscard]] Verb list_verb();
[[nodiscard]] Verb explain_verb();
[[nodiscard]] Verb completion_verb();
[[nodiscard]] Verb man_verb();
[[nodiscard]] Verb version_verb();

}  // namespace rehearse::cli
