#pragma once
// How far predictions are off.

#include <map>
#include <string>
#include <vector>

namespace rehearse {

/// Of relative errors e = predicted / measured - 1. Quantiles are those of sorted |e| with linear interpolation between
/// neighbours.
struct ErrorStatistics {
  int rows = 0;
  double median = 0;  ///< Of |e|.
  double mean = 0;    ///< Of |e|.
  double p90 = 0;     ///< Of |e|.
  double worst = 0;   ///< The largest |e|.
  double bias = 0;    ///< Median of e: negative where predictions are too fast.
};

/// All zero for no errors.
[[nodiscard]] ErrorStatistics statistics(std::vector<double> errors);

/// The q-quantile, 0 <= q <= 1, of `values`, which must not be empty.
[[nodiscard]] double quantile(std::vector<double> values, double q);

}  // namespace rehearse
