#pragma once
// validate, second form: predictions against what others measured.

#include "core/cli/verb.hpp"

namespace rehearse::cli {

/// The files are those of --measurements and the positionals. Returns the exit code: 1 where --max-error is given and
/// the median error of step times is larger, or where no row counts.
int validate_measurements(const Arguments& arguments, Console& console);

/// The options it takes, beside those of every verb with a result.
[[nodiscard]] std::vector<Option> validate_measurements_options();

}  // namespace rehearse::cli
