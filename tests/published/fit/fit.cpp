#include "tests/published/fit/fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/error.hpp"
#include "core/base/index.hpp"

namespace rehearse {
namespace {

// How the optimiser sees a constant: as its logarithm, or as a clamped multiple of `unit`, so that it can reach 0
// exactly.
struct Scale {
  std::string_view name;
  bool log;
  double unit;
  double low;
  double high;
};
constexpr std::array<Scale, kGemmParameters> kScales{{
    {"efficiency", true, 1, 0, 1.0},
    {"bandwidth_fraction", true, 1, 0, 0.93},  // no kernel streams faster than this share of the datasheet
    {"fixed_s", true, 1, 0, 1e-3},
    {"overlap_power", false, 1, 1.0, 20.0},
    {"k_prologue", false, 100, 0, 1e4},
    {"tile_penalty", false, 10, 0, 1e3},
    {"wave_quantisation", false, 1, 0, 1.0},
    {"accumulate_factor", true, 1, 0, 2.0},
    {"burst_gain", false, 0.1, 0, 1.0},
    {"burst_gain_zeros", false, 0.1, 0, 1.0},
    {"burst_s", true, 1, 0, 0.1},
}};

double encode(double value, const Scale& s) { return s.log ? std::log(value) : value / s.unit; }
double decode(double x, const Scale& s) { return std::clamp(s.log ? std::exp(x) : x * s.unit, s.low, s.high); }

const Scale& scale_of(GemmParameter p) { return nth(kScales, p); }

GemmConstants decoded(const GemmFitOptions& options, std::span<const double> x) {
  GemmConstants c = options.start;
  for (std::size_t i = 0; i < x.size(); ++i) set(c, options.free[i], decode(x[i], scale_of(options.free[i])));
  return c;
}

double seconds_of(const MeasuredGemm& row, const GemmConstants& c) {
  return gemm_time(row.shape, row.storage, c, row.rates).total.value();
}

std::vector<double> sensitivities(std::span<const MeasuredGemm> rows, const GemmConstants& c) {
  std::vector<double> out;
  for (int i = 0; i < kGemmParameters; ++i) {
    const auto p = static_cast<GemmParameter>(i);
    constexpr double kStep = 0.01;
    GemmConstants moved = c;
    set(moved, p, get(c, p) * (1 + kStep));
    double sum = 0;
    for (const auto& row : rows) sum += std::log(seconds_of(row, moved) / seconds_of(row, c));
    out.push_back(sum / static_cast<double>(rows.size()) / std::log1p(kStep));
  }
  return out;
}

}  // namespace

double rounded(double v) {
  if (v == 0 || !std::isfinite(v)) return v;
  const double unit = std::pow(10.0, 3 - std::floor(std::log10(std::abs(v))));
  return std::round(v * unit) / unit;
}

ErrorSummary rounded(const ErrorSummary& e) { return {e.rows, rounded(e.median), rounded(e.p90), rounded(e.bias)}; }

std::string_view name_of(GemmParameter p) { return scale_of(p).name; }

double get(const GemmConstants& c, GemmParameter p) {
  switch (p) {
    case GemmParameter::efficiency: return c.efficiency;
    case GemmParameter::bandwidth_fraction: return c.bandwidth_fraction;
    case GemmParameter::fixed: return c.fixed.value();
    case GemmParameter::overlap_power: return c.overlap_power;
    case GemmParameter::k_prologue: return c.k_prologue;
    case GemmParameter::tile_penalty: return c.tile_penalty;
    case GemmParameter::wave_quantisation: return c.wave_quantisation;
    case GemmParameter::accumulate_factor: return c.accumulate_factor;
    case GemmParameter::burst_gain: return c.burst_gain;
    case GemmParameter::burst_gain_zeros: return c.burst_gain_zeros;
    case GemmParameter::burst: return c.burst.value();
  }
  return 0;
}

void set(GemmConstants& c, GemmParameter p, double value) {
  switch (p) {
    case GemmParameter::efficiency: c.efficiency = value; break;
    case GemmParameter::bandwidth_fraction: c.bandwidth_fraction = value; break;
    case GemmParameter::fixed: c.fixed = Seconds{value}; break;
    case GemmParameter::overlap_power: c.overlap_power = value; break;
    case GemmParameter::k_prologue: c.k_prologue = value; break;
    case GemmParameter::tile_penalty: c.tile_penalty = value; break;
    case GemmParameter::wave_quantisation: c.wave_quantisation = value; break;
    case GemmParameter::accumulate_factor: c.accumulate_factor = value; break;
    case GemmParameter::burst_gain: c.burst_gain = value; break;
    case GemmParameter::burst_gain_zeros: c.burst_gain_zeros = value; break;
    case GemmParameter::burst: c.burst = Seconds{value}; break;
  }
}

GemmFit fit_gemm(std::span<const MeasuredGemm> rows, const GemmFitOptions& options) {
  if (rows.empty() || rows.size() < options.free.size())
    throw Error(ErrorKind::usage,
                std::to_string(rows.size()) + " rows cannot fit " + std::to_string(options.free.size()) + " constants",
                "GEMM fit", "measure more shapes");
  for (const auto& row : rows)
    if (!(row.time.value() > 0)) throw Error(ErrorKind::usage, "row '" + row.id + "' has no time", "GEMM fit");
  const auto loss = [&](std::span<const double> x) {
    const GemmConstants c = decoded(options, x);
    double sum = 0;
    for (const auto& row : rows)
      sum += row.weight * soft_l1(std::log(seconds_of(row, c) / row.time.value()), options.loss_scale);
    return sum;
  };
  std::vector<double> start;
  for (auto p : options.free) start.push_back(encode(get(options.start, p), scale_of(p)));
  const Minimum best = minimise(loss, std::move(start), options.minimiser);
  GemmFit fit{decoded(options, best.x), static_cast<int>(rows.size()), best.value, {}};
  fit.sensitivity = sensitivities(rows, fit.constants);
  return fit;
}

ErrorSummary gemm_errors(std::span<const MeasuredGemm> rows, const GemmConstants& constants) {
  std::vector<double> predicted, measured;
  for (const auto& row : rows) {
    predicted.push_back(seconds_of(row, constants));
    measured.push_back(row.time.value());
  }
  return summarise_errors(predicted, measured);
}

}  // namespace rehearse
