#pragma once
// --max-error: how far off a prediction may be before validate says that it failed.

#include <optional>

#include "core/cli/verb.hpp"

namespace rehearse::cli {

/// --max-error SHARE.
[[nodiscard]] Option max_error_option();

/// What --max-error says ("10%" or "0.1" is 0.1); nothing where it is not given. Throws Error (usage) for what is no
/// share.
[[nodiscard]] std::optional<double> max_error(const Arguments& arguments);

}  // namespace rehearse::cli
