#include "tests/published/fit/fit_convolutions.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "tests/published/fit/fit.hpp"

namespace rehearse {
namespace {

/// How the optimiser sees a constant: as its logarithm, or as a clamped multiple of `unit`.
struct Range {
  double start;
  bool log;
  double unit, low, high;
};
constexpr double kMostOfBandwidth = 0.93;  // No kernel streams faster than this share of the datasheet.
constexpr std::array<Range, kConvolutionParameters> kRanges{{{0.7, true, 1, 0, 1},
                                                             {0.7, true, 1, 0, 1},
                                                             {0.6, true, 1, 0, 1},
                                                             {0.3, true, 1, 0, 1},
                                                             {0.6, true, 1, 0, 1},
                                                             {0.8, true, 1, 0, kMostOfBandwidth},
                                                             {1e-5, true, 1, 0, 1e-3},
                                                             {2, false, 1, 1, 20},
                                                             {20, false, 20, 0, 1000},
                                                             {20, false, 20, 0, 1000},
                                                             {20, false, 20, 0, 1000},
                                                             {0.5, false, 1, 0, 1},
                                                             {0.4, false, 0.5, 0, 1}}};

double encode(double v, const Range& r) { return r.log ? std::log(v) : v / r.unit; }
double decode(double x, const Range& r) { return std::clamp(r.log ? std::exp(x) : x * r.unit, r.low, r.high); }

double seconds_of(const MeasuredConvolution& m, ConvolutionClass cls, const ConvolutionConstants& c) {
  return convolution_time(m.row->shape, m.row->traffic, c, cls, m.rates).total.value();
}

}  // namespace

std::vector<ConvolutionParameter> parameters_of(ConvolutionClass cls) {
  std::vector<ConvolutionParameter> out;
  for (int i = 0; i < kConvolutionParameters; ++i)
    if (const auto p = static_cast<ConvolutionParameter>(i);
        cls == ConvolutionClass::cuda || p != ConvolutionParameter::efficiency_transformed)
      out.push_back(p);
  return out;
}

ConvolutionFit fit_convolutions(std::span<const MeasuredConvolution> rows, ConvolutionClass cls) {
  const std::vector<ConvolutionParameter> free = parameters_of(cls);
  constexpr std::size_t kRowsOfOne = 10;
  if (rows.size() < kRowsOfOne * free.size())
    throw Error(ErrorKind::usage,
                std::to_string(rows.size()) + " rows cannot fit " + std::to_string(free.size()) + " constants",
                "fit of convolutions", "measure more layers");
  const auto decoded = [&](std::span<const double> x) {
    ConvolutionConstants c;
    for (std::size_t i = 0; i < x.size(); ++i) nth(c.values, free[i]) = decode(x[i], nth(kRanges, free[i]));
    return c;
  };
  constexpr double kScale = 0.1;
  const auto loss = [&](std::span<const double> x) {
    const ConvolutionConstants c = decoded(x);
    double sum = 0;
    for (const auto& m : rows) sum += soft_l1(std::log(seconds_of(m, cls, c) / m.row->time.value()), kScale);
    return sum;
  };
  Minimum best{{}, std::numeric_limits<double>::infinity(), 0};
  // Whole tiles make the loss bumpy: the lowest of a few starts is taken.
  for (const double faster : {0.0, 0.25}) {
    std::vector<double> start;
    for (const auto p : free)
      start.push_back(encode(nth(kRanges, p).start, nth(kRanges, p)) + (nth(kRanges, p).log ? faster : -faster));
    Minimum found =
        minimise(loss, std::move(start), {.step = 0.25, .restarts = 5, .max_evaluations = 12000, .tolerance = 1e-5});
    if (found.value < best.value) best = std::move(found);
  }
  ConvolutionFit fit{decoded(best.x), static_cast<int>(rows.size()), best.value, {}};
  for (const auto p : free) {
    constexpr double kStep = 0.01;
    ConvolutionConstants moved = fit.constants;
    nth(moved.values, p) *= 1 + kStep;
    double sum = 0;
    for (const auto& m : rows) sum += std::log(seconds_of(m, cls, moved) / seconds_of(m, cls, fit.constants));
    nth(fit.sensitivity, p) = sum / static_cast<double>(rows.size()) / std::log1p(kStep);
  }
  return fit;
}

ErrorSummary convolution_errors(std::span<const MeasuredConvolution> rows, ConvolutionClass cls,
                                const ConvolutionConstants& constants) {
  std::vector<double> predicted, measured;
  for (const auto& m : rows) {
    predicted.push_back(seconds_of(m, cls, constants));
    measured.push_back(m.row->time.value());
  }
  return summarise_errors(predicted, measured);
}

}  // namespace rehearse
