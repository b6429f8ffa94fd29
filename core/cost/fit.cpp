#include "core/cost/fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/units/error.hpp"

namespace rehearse {
namespace {

// How the optimiser sees a constant: as its logarithm, or as a clamped multiple of `unit`, so that it can reach 0 exactly.
struct Scale { std::string_view name; bool log; double unit; double low; double high; };
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

const Scale& scale_of(GemmParameter p) { return kScales[static_cast<std::size_t>(p)]; }

GemmConstants decoded(const GemmFitOptions& options, std::span<const double> x) {
  GemmConstants c = options.start;
  for (std::size_t i = 0; i < x.size(); ++i) set(c, options.free[i], decode(x[i], scale_of(options.free[i])));
  return c;
}

double seconds_of(const MeasuredGemm& row, const GemmConstants& c, const GemmRates& rates) {
  return gemm_time(row.shape, row.storage, c, rates).total.value();
}

std::vector<double> sensitivities(std::span<const MeasuredGemm> rows, const GemmRates& rates, const GemmConstants& c) {
  std::vector<double> out;
  for (int i = 0; i < kGemmParameters; ++i) {
    const auto p = static_cast<GemmParameter>(i);
    constexpr double kStep = 0.01;
    GemmConstants moved = c;
    set(moved, p, get(c, p) * (1 + kStep));
    double sum = 0;
    for (const auto& row : rows) sum += std::log(seconds_of(row, moved, rates) / seconds_of(row, c, rates));
    out.push_back(sum / static_cast<double>(rows.size()) / std::log1p(kStep));
  }
  return out;
}

constexpr double kBytesPerElement = 2;

double flash_seconds(const MeasuredAttention& row, const FlashConstants& c) {
  double total = flash_time(row.shape, kBytesPerElement, false, c, row.rates).total.value();
  if (row.with_backward) total += flash_time(row.shape, kBytesPerElement, true, c, row.rates).total.value();
  return total;
}

double median_of(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  const std::size_t half = v.size() / 2;
  return v.size() % 2 ? v[half] : (v[half - 1] + v[half]) / 2;
}

void store_sensitivity(std::span<const MeasuredAttention> rows, FlashFit& fit) {
  constexpr double kStep = 0.01;
  for (auto& [name, c] : fit.groups) {
    FlashConstants start = c, diagonal = c;
    start.start_keys *= 1 + kStep;
    start.start_keys_backward *= 1 + kStep;
    diagonal.diagonal_keys *= 1 + kStep;
    for (const auto& row : rows) {
      if (row.group != name) continue;
      const double scale = std::log1p(kStep) * static_cast<double>(rows.size());
      fit.start_sensitivity += std::log(flash_seconds(row, start) / flash_seconds(row, c)) / scale;
      fit.diagonal_sensitivity += std::log(flash_seconds(row, diagonal) / flash_seconds(row, c)) / scale;
    }
  }
}

// The ratio by which a backward pass is slower, from rows that hold both passes.
void level_backward(const std::vector<const MeasuredAttention*>& rows, FlashConstants& constants, int head_dim) {
  const auto has_both = [](const auto* row) { return row->with_backward; };
  if (std::none_of(rows.begin(), rows.end(), has_both)) return;
  double& ratio = constants.backward_ratios[head_dim];
  ratio = 0.75;
  for (int pass = 0; pass < 3; ++pass) {
    std::vector<double> ratios;
    for (const auto* row : rows) {
      if (!row->with_backward) continue;
      const double forward = flash_time(row->shape, kBytesPerElement, false, constants, row->rates).total.value();
      ratios.push_back((flash_seconds(*row, constants) - forward) / (row->time.value() - forward));
    }
    ratio *= median_of(std::move(ratios));
  }
}

// With S0 and B set, time is close to inversely proportional to the efficiency: the median ratio, taken twice, gives it.
void level(std::span<const MeasuredAttention> rows, FlashFit& fit) {
  std::map<std::pair<std::string, int>, std::vector<const MeasuredAttention*>> cells;
  for (const auto& row : rows) cells[{row.group, static_cast<int>(row.shape.head_dim)}].push_back(&row);
  for (const auto& [cell, members] : cells) {
    auto& constants = fit.groups.at(cell.first);
    const bool both = constants.backward_ratio > 0;
    double& efficiency = constants.efficiency[cell.second];
    efficiency = 0.5;
    for (int pass = 0; pass < 3; ++pass) {
      std::vector<double> ratios;
      for (const auto* row : members)
        if (both || !row->with_backward) ratios.push_back(flash_seconds(*row, constants) / row->time.value());
      efficiency *= median_of(std::move(ratios));
    }
    if (!both) level_backward(members, constants, cell.second);
  }
}

}  // namespace

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

GemmFit fit_gemm(std::span<const MeasuredGemm> rows, const GemmRates& rates, const GemmFitOptions& options) {
  if (rows.empty() || rows.size() < options.free.size())
    throw Error(ErrorKind::usage, std::to_string(rows.size()) + " rows cannot fit " + std::to_string(options.free.size()) + " constants",
                "GEMM fit", "measure more shapes");
  for (const auto& row : rows)
    if (!(row.time.value() > 0)) throw Error(ErrorKind::usage, "row '" + row.id + "' has no time", "GEMM fit");
  const auto loss = [&](std::span<const double> x) {
    const GemmConstants c = decoded(options, x);
    double sum = 0;
    for (const auto& row : rows)
      sum += row.weight * soft_l1(std::log(seconds_of(row, c, rates) / row.time.value()), options.loss_scale);
    return sum;
  };
  std::vector<double> start;
  for (auto p : options.free) start.push_back(encode(get(options.start, p), scale_of(p)));
  const Minimum best = minimise(loss, std::move(start), options.minimiser);
  GemmFit fit{decoded(options, best.x), static_cast<int>(rows.size()), best.value, {}};
  fit.sensitivity = sensitivities(rows, rates, fit.constants);
  return fit;
}

ErrorSummary gemm_errors(std::span<const MeasuredGemm> rows, const GemmRates& rates, const GemmConstants& constants) {
  std::vector<double> predicted, measured;
  for (const auto& row : rows) {
    predicted.push_back(seconds_of(row, constants, rates));
    measured.push_back(row.time.value());
  }
  return summarise_errors(predicted, measured);
}

FlashFit fit_flash(std::span<const MeasuredAttention> rows, const FlashConstants& given, double loss_scale) {
  if (rows.empty()) throw Error(ErrorKind::usage, "no rows to fit", "flash attention fit");
  FlashFit fit;
  for (const auto& row : rows) {
    fit.groups.emplace(row.group, given);
    ++fit.rows[row.group];
  }
  const auto forward_alone = [](const MeasuredAttention& row) { return !row.with_backward; };
  const auto both = [](const MeasuredAttention& row) { return row.with_backward; };
  const bool separable = std::any_of(rows.begin(), rows.end(), forward_alone) && std::any_of(rows.begin(), rows.end(), both);
  const auto loss = [&](std::span<const double> x) {
    for (auto& [name, c] : fit.groups) {
      c.start_keys = 100 * std::max(0.0, x[0]);
      c.diagonal_keys = 100 * std::max(0.0, x[1]);
      c.start_keys_backward = 100 * std::max(0.0, x[separable ? 2 : 0]);
    }
    level(rows, fit);
    double sum = 0;
    for (const auto& row : rows)
      sum += soft_l1(std::log(flash_seconds(row, fit.groups.at(row.group)) / row.time.value()), loss_scale);
    return sum;
  };
  const Minimum best = minimise(loss, separable ? std::vector{1.5, 1.5, 1.5} : std::vector{1.5, 1.5}, {.step = 0.3});
  loss(best.x);
  const FlashConstants& any = fit.groups.begin()->second;
  fit.start_keys = any.start_keys;
  fit.start_keys_backward = any.start_keys_backward;
  fit.diagonal_keys = any.diagonal_keys;
  store_sensitivity(rows, fit);
  return fit;
}

ErrorSummary flash_errors(std::span<const MeasuredAttention> rows, const FlashConstants& constants) {
  std::vector<double> predicted, measured;
  for (const auto& row : rows) {
    predicted.push_back(flash_seconds(row, constants));
    measured.push_back(row.time.value());
  }
  return summarise_errors(predicted, measured);
}

}  // namespace rehearse
