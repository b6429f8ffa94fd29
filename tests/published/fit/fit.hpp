#pragma once
// Finds the constants of the kernel formulas from measured kernels. Deterministic: no random starts, no clock; the same
// rows in the same order give the same constants on the same machine, and to four digits on any.
//
// Loss: sum over rows of weight * rho(ln(predicted / measured)), rho(r) = 2 d² (sqrt(1 + (r/d)²) - 1), "soft L1":
// quadratic below the scale d and linear above, so that rows which no shape explains (throttling, odd library choices)
// don't steer the fit.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/price/calibration/calibration.hpp"
#include "core/price/kernel_tables.hpp"
#include "core/price/kernels/kernel_gemm.hpp"

namespace rehearse {

struct MinimiserOptions {
  double step = 0.15;           ///< Edge of the first simplex, in parameter units. Range (0, 10].
  int restarts = 4;             ///< Fresh simplices around the best point; they free a collapsed one.
  int max_evaluations = 30000;  ///< Of the objective, over all restarts.
  double tolerance = 1e-10;     ///< A simplex whose corners differ by less than this in every parameter has converged.
};

struct Minimum {
  std::vector<double> x;
  double value = 0;
  int evaluations = 0;
};

/// Nelder and Mead's downhill simplex (The Computer Journal 7(4), 1965) for a few parameters; needs no derivatives.
[[nodiscard]] Minimum minimise(const std::function<double(std::span<const double>)>& objective,
                               std::vector<double> start, const MinimiserOptions& options = {});

/// rho above, for the log error `r` and scale `d` > 0.
[[nodiscard]] double soft_l1(double r, double d);

/// Errors of predictions over measurements, row by row; percentiles by linear interpolation. Empty input gives zeros.
[[nodiscard]] ErrorSummary summarise_errors(std::span<const double> predicted, std::span<const double> measured);

/// Four significant digits, as profiles state constants and errors.
[[nodiscard]] double rounded(double v);
[[nodiscard]] ErrorSummary rounded(const ErrorSummary& e);

/// The constants of GemmConstants that a fit may move.
enum class GemmParameter {
  efficiency,
  bandwidth_fraction,
  fixed,
  overlap_power,
  k_prologue,
  tile_penalty,
  wave_quantisation,
  accumulate_factor,
  burst_gain,
  burst_gain_zeros,
  burst
};
inline constexpr int kGemmParameters = 11;
/// Name of the constant in a calibration profile.
[[nodiscard]] std::string_view name_of(GemmParameter p);
[[nodiscard]] double get(const GemmConstants& c, GemmParameter p);
void set(GemmConstants& c, GemmParameter p, double value);

struct GemmFitOptions {
  GemmConstants start;              ///< Starting point; constants not in `free` keep these values.
  std::vector<GemmParameter> free;  ///< What to fit.
  double loss_scale = 0.1;          ///< d of the loss: errors beyond 10 % count linearly.
  MinimiserOptions minimiser;
};

struct GemmFit {
  GemmConstants constants;
  int rows = 0;
  double loss = 0;
  std::vector<double> sensitivity;  ///< One per GemmParameter: mean d ln(time) / d ln(constant) over the rows.
};

/// Throws Error (usage) when there are fewer rows than free constants, or a row has no time.
[[nodiscard]] GemmFit fit_gemm(std::span<const MeasuredGemm> rows, const GemmFitOptions& options);

[[nodiscard]] ErrorSummary gemm_errors(std::span<const MeasuredGemm> rows, const GemmConstants& constants);

}  // namespace rehearse
