#pragma once
// A word of a command line that a shell reads as it stands.

#include <string>

namespace rehearse {

/// In single quotes where a shell would take it apart.
[[nodiscard]] std::string shell_word(const std::string& text);

}  // namespace rehearse
