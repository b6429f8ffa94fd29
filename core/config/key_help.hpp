#pragma once
// What `explain` prints of one key, of a scenario or of a plan.

#include <string>

#include "core/config/scenario.hpp"

namespace rehearse {

/// `example` is "strategy.tp=8", as --set takes it before a shell needs quotes; it and `detail`, what one line cannot
/// say, may be empty. Ends in a newline.
[[nodiscard]] std::string help_page(const KeyHelp& key, const std::string& example, const std::string& detail);

}  // namespace rehearse
