#pragma once
// A session's plan in the words of other programs.

#include <optional>
#include <string>

#include "core/api/session/session.hpp"
#include "core/export/export.hpp"

namespace rehearse {

/// Letters, digits and dashes of a scenario's path, as names of Kubernetes and Slurm want it.
[[nodiscard]] std::string job_name(const std::string& scenario);

/// What `target` writes. Throws Error (usage) where the target, or the release of its software that the scenario names,
/// cannot do what the plan asks for.
[[nodiscard]] Exported exported(const Session& session, const Program& program, const std::string& target);

/// The first target that takes the plan: that of the scenario's framework, then those of other frameworks, then a
/// launcher. Empty where none does.
[[nodiscard]] std::string target_that_takes(const Session& session, const Program& program);

}  // namespace rehearse
