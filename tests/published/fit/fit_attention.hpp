#pragma once
// Finds the constants of fused attention from measured kernels, with the loss and the optimiser of fit.hpp.

#include <map>
#include <span>
#include <string>

#include "core/price/calibration/calibration.hpp"
#include "core/price/kernel_tables.hpp"
#include "core/price/kernels/kernel_attention.hpp"

namespace rehearse {

struct FlashFitOptions {
  double loss_scale = 0.1;
  /// `long_slowdown` and `long_after` of all rows are fitted too; otherwise they stay as given.
  bool slowdown = false;
};

struct FlashFit {
  std::map<std::string, FlashConstants> groups;
  std::map<std::string, int> rows, rows_of_start, rows_of_diagonal;  ///< By group, `start` and `diagonal`.
  /// By group: mean d ln(time) / d ln(constant) over its rows.
  std::map<std::string, double> start_sensitivity, diagonal_sensitivity;
};

/// Fits S0 and B over the rows that share them and one efficiency per group and head dimension; S0 of backward passes
/// on its own where some of its rows hold one pass and some both. What is not fitted stays as `given` for the group:
/// `fixed`, `backward_ratio`, `causal_tail`, `block_queries`. A `backward_ratio` of 0 is fitted too, per group and head
/// dimension: rows of one pass alone then give the efficiency, the others the ratio. Throws Error (usage) when there is
/// no row, or a group that is not given.
[[nodiscard]] FlashFit fit_flash(std::span<const MeasuredAttention> rows,
                                 const std::map<std::string, FlashConstants>& given,
                                 const FlashFitOptions& options = {});

[[nodiscard]] ErrorSummary flash_errors(std::span<const MeasuredAttention> rows, const FlashConstants& constants);

}  // namespace rehearse
