#pragma once
// --backend: what plays a step.

#include <string>

#include "core/cli/verb.hpp"

namespace rehearse::cli {

/// --backend NAME.
[[nodiscard]] Option backend_option();

/// The name that --backend gives; by default the most exact one that is built in, with a note where that is not
/// SimGrid. Throws Error: usage for an unknown name, unavailable for SimGrid in a build without it.
[[nodiscard]] std::string chosen_backend(const Arguments& arguments, Console& console);

}  // namespace rehearse::cli
