#pragma once
// Patterns of a shell: *, ? and [abc].

#include <cstddef>
#include <string_view>

namespace rehearse::job {

/// Whether all of `text` fits. A backslash takes the next character as it is; "a|b" has no meaning here.
[[nodiscard]] bool fits_pattern(std::string_view text, std::string_view pattern);
/// Length of the shortest or longest beginning of `text` that fits; npos where none does.
[[nodiscard]] std::size_t fitting_prefix(std::string_view text, std::string_view pattern, bool longest);
/// The same from the end: where the ending begins.
[[nodiscard]] std::size_t fitting_suffix(std::string_view text, std::string_view pattern, bool longest);

}  // namespace rehearse::job
