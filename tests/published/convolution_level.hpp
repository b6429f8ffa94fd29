#pragma once
// The level of a generation of which no layer was measured.

#include <string_view>

namespace rehearse {

/// Whether `constant` is what the level of a generation scales: the efficiency of a product that gathers its patches
/// itself. Filtering, fused or between transforms, multiplies what lies in order, as a matrix product does.
[[nodiscard]] inline bool has_level(std::string_view constant) {
  return constant.starts_with("efficiency") && constant != "efficiency_fused" && constant != "efficiency_transformed";
}

}  // namespace rehearse
