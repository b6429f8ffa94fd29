#pragma once
// Sizes that only the data decides, for who must have room for them.

#include "core/program/program.hpp"

namespace rehearse {

/// The same Program with every dynamic dimension at its bound, where a context gives no values: what execution takes
/// memory for.
[[nodiscard]] Program at_bounds(Program program);

}  // namespace rehearse
