#pragma once
// Quantiles as this module and its reports count them.

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/units.hpp"

namespace rehearse::fleet {

/// The smallest value that a share `q` of all does not exceed, 0 < q <= 1; 0 of none.
[[nodiscard]] inline Seconds quantile(std::vector<Seconds> values, double q) {
  if (values.empty()) return Seconds{0};
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(values.size())));
  return values[std::clamp<std::size_t>(rank, 1, values.size()) - 1];
}

}  // namespace rehearse::fleet
