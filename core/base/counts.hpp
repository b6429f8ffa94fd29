#pragma once
// Counts as people write them. Keys and options take plain numbers: 300e9, 8192.

#include <string>
#include <string_view>

namespace rehearse {

/// How to write a count that has a letter behind it, which nothing takes, as k may stand for 1,000 and for 1,024:
/// "write 8192 or 8000" of "8k", "write 1.5e12" of "1.5T". Empty for any other text.
[[nodiscard]] std::string count_hint(std::string_view text);

}  // namespace rehearse
