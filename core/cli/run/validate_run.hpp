#pragma once
// validate, first form: a scenario for real on this machine against the same Program simulated.

#include "core/cli/verb.hpp"

namespace rehearse::cli {

/// The scenario is the first positional. Returns the exit code: 1 where --max-error is given and the step is further
/// off.
int validate_run(const Arguments& arguments, Console& console);

/// The options it takes, beside those of every verb with a result.
[[nodiscard]] std::vector<Option> validate_run_options();

}  // namespace rehearse::cli
