#include "core/scoreboard/errors.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace rehearse {

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

ErrorStatistics statistics(std::vector<double> errors) {
  ErrorStatistics out;
  if (errors.empty()) return out;
  out.rows = static_cast<int>(errors.size());
  out.bias = quantile(errors, 0.5);
  for (double& e : errors) e = std::abs(e);
  out.mean = std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
  out.median = quantile(errors, 0.5);
  out.p90 = quantile(errors, 0.9);
  out.worst = *std::max_element(errors.begin(), errors.end());
  return out;
}

}  // namespace rehearse
