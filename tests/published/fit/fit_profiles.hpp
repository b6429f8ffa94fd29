#pragma once
// The recipe that turns measurement files into the shipped calibration profiles: which rows give which constants. Used
// by the program that writes topologies/calibration, by the test that rebuilds it, and by the fit report.
//
// Files under the reader's root:
//   gemm_deepbench.csv, convolutions_by_layer.csv  16-bit products, and layers of convolutions, of one benchmark
//   gemm_by_shape.csv, gemm_sweeps.csv  16-bit products by shape      flash_attention.csv, window_attention.csv  fused
//   attention gemm_fp8.csv                        8-bit products                stated/<generation>.json  constants
//   read from a source, not fitted
// Half of the rows (by a hash of the shape) is fitted, the other half gives the errors that the profiles state.

#include <functional>
#include <string>
#include <vector>

#include "core/price/kernel_tables.hpp"

namespace rehearse {

/// The datasheet of a GPU by its catalogue id. Datasheets are no measurements: they are not in the record of what was
/// read.
using FitGpus = std::function<GpuSpec(const std::string& id)>;

struct FitReport {
  std::vector<CalibrationProfile> profiles;  ///< fallback, then from maxwell and kepler to blackwell.
  std::vector<TableRead> reads;              ///< All that was read.
};

/// Constants are rounded to four significant digits: more would be false precision, and fewer moves no time by 0.1 %.
[[nodiscard]] FitReport fit_profiles(TableReader& reader, const FitGpus& gpu);

/// One line per constant (value, source, rows, sensitivity) and per error row, in a fixed order.
[[nodiscard]] std::string fit_report_text(const FitReport& report);

}  // namespace rehearse
