#pragma once
// Differences between two lists of lines, as people read them.

#include <string>
#include <vector>

namespace golden {

/// A unified diff with three lines of context, headed "--- expected" and "+++ obtained"; empty when the lists are
/// equal. The edit script is a shortest one (longest common subsequence; time and memory are the product of the lengths
/// that differ).
[[nodiscard]] std::vector<std::string> unified_diff(const std::vector<std::string>& expected,
                                                    const std::vector<std::string>& obtained);

}  // namespace golden
