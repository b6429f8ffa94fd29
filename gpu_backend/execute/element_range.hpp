#pragma once
// Which elements of a local storage are meant.

#include <cstdint>
#include <vector>

namespace rehearse {

/// Consecutive elements.
struct ElementRange {
  std::int64_t first = 0, length = 0;
};
using ElementRanges = std::vector<ElementRange>;

}  // namespace rehearse
