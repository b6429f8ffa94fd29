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

/// Passes whose rows a constant acts on: those of one are fitted together, then those of all.
enum class Block { forward, input_grad, weight_grad, all };

/// How the optimiser sees a constant: as its logarithm, or as a clamped multiple of `unit`.
struct Range {
  double start;
  bool log;
  double unit, low, high;
  Block block;
};
constexpr double kMostOfBandwidth = 0.93;  // No kernel streams faster than this share of the datasheet.
constexpr std::array<Range, kConvolutionParameters> kRanges{{{0.7, true, 1, 0, 1, Block::forward},
                                                             {0.7, true, 1, 0, 1, Block::input_grad},
                                                             {0.6, true, 1, 0, 1, Block::weight_grad},
                                                             {0.5, true, 1, 0, 1, Block::weight_grad},
                                                             {0.6, true, 1, 0.3, 1, Block::all},
                                                             {0.8, true, 1, 0.1, 1, Block::all},
                                                             {0.8, true, 1, 0, kMostOfBandwidth, Block::all},
                                                             {0.5, true, 1, 0, kMostOfBandwidth, Block::weight_grad},
                                                             {0.8, true, 1, 0, kMostOfBandwidth, Block::all},
                                                             {1e-5, true, 1, 0, 1e-3, Block::all},
                                                             {1.5e-5, true, 1, 0, 1e-3, Block::weight_grad},
                                                             {3e-6, true, 1, 0, 1e-3, Block::weight_grad},
                                                             {3e-5, true, 1, 0, 1e-3, Block::input_grad},
                                                             {2, false, 1, 1, 20, Block::all},
                                                             {20, false, 20, 0, 1000, Block::forward},
                                                             {20, false, 20, 0, 1000, Block::input_grad},
                                                             {20, false, 20, 0, 1000, Block::weight_grad},
                                                             {0.8, false, 1, 0, 1, Block::all},
                                                             {0.3, false, 0.5, 0, 1, Block::input_grad},
                                                             {1, false, 2, 0, 50, Block::weight_grad},
                                                             {0, false, 1, 0, 1, Block::all}}};

double encode(double v, const Range& r) { return r.log ? std::log(v) : v / r.unit; }
double decode(double x, const Range& r) { return std::clamp(r.log ? std::exp(x) : x * r.unit, r.low, r.high); }

double seconds_of(const MeasuredConvolution& m, ConvolutionClass cls, const ConvolutionConstants& c) {
  return convolution_time(m.row->shape, m.row->traffic, c, cls, m.rates).total.value();
}

/// Descends by the constants of each pass in turn and by those of all, which is less bumpy than by all at once.
class Descent {
 public:
  Descent(std::span<const MeasuredConvolution> rows, ConvolutionClass cls) : rows_(rows), cls_(cls) {}

  /// From starts shifted by `faster`, in units of the optimiser.
  [[nodiscard]] ConvolutionConstants from(double coarse, double faster) const {
    ConvolutionConstants c;
    for (const auto p : parameters_of(cls_)) {
      const Range& r = nth(kRanges, p);
      nth(c.values, p) = decode(encode(r.start, r) + (r.log ? faster : -faster), r);
    }
    nth(c.values, ConvolutionParameter::coarse_tiles) = coarse;
    constexpr int kRounds = 4;
    for (int round = 0; round < kRounds; ++round)
      for (const Block block : {Block::forward, Block::input_grad, Block::weight_grad, Block::all})
        descend(c, block, round == 0 ? 0.25 : 0.12);
    return c;
  }

  [[nodiscard]] double loss(const ConvolutionConstants& c, Block block = Block::all) const {
    constexpr double kScale = 0.1;
    double sum = 0;
    for (const auto& m : rows_)
      if (block == Block::all || static_cast<int>(block) == static_cast<int>(m.row->shape.pass))
        sum += soft_l1(std::log(seconds_of(m, cls_, c) / m.row->time.value()), kScale);
    return sum;
  }

 private:
  void descend(ConvolutionConstants& c, Block block, double step) const {
    std::vector<ConvolutionParameter> free;
    std::vector<double> start;
    for (const auto p : parameters_of(cls_))
      if (nth(kRanges, p).block == block && p != ConvolutionParameter::coarse_tiles) {
        free.push_back(p);
        start.push_back(encode(c[p], nth(kRanges, p)));
      }
    const auto moved = [&](std::span<const double> x) {
      ConvolutionConstants to = c;
      for (std::size_t i = 0; i < x.size(); ++i) nth(to.values, free[i]) = decode(x[i], nth(kRanges, free[i]));
      return to;
    };
    const Minimum found = minimise([&](std::span<const double> x) { return loss(moved(x), block); }, std::move(start),
                                   {.step = step, .restarts = 5, .max_evaluations = 1500, .tolerance = 1e-5});
    c = moved(found.x);
  }

  std::span<const MeasuredConvolution> rows_;
  ConvolutionClass cls_;
};

}  // namespace

std::vector<ConvolutionParameter> parameters_of(ConvolutionClass cls) {
  std::vector<ConvolutionParameter> out;
  for (int i = 0; i < kConvolutionParameters; ++i)
    if (const auto p = static_cast<ConvolutionParameter>(i); has(cls, p)) out.push_back(p);
  return out;
}

ConvolutionFit fit_convolutions(std::span<const MeasuredConvolution> rows, ConvolutionClass cls) {
  const std::vector<ConvolutionParameter> free = parameters_of(cls);
  constexpr std::size_t kRowsOfOne = 10;
  if (rows.size() < kRowsOfOne * free.size())
    throw Error(ErrorKind::usage,
                std::to_string(rows.size()) + " rows cannot fit " + std::to_string(free.size()) + " constants",
                "fit of convolutions", "measure more layers");
  const Descent descent(rows, cls);
  ConvolutionFit fit{{}, static_cast<int>(rows.size()), std::numeric_limits<double>::infinity(), {}};
  // Whole tiles make the loss bumpy: the lowest of a few starts is taken.
  for (const double coarse : {0.0, 1.0})
    for (const double faster : {0.0, 0.25}) {
      const ConvolutionConstants found = descent.from(coarse, faster);
      if (const double loss = descent.loss(found); loss < fit.loss) fit.constants = found, fit.loss = loss;
    }
  for (const auto p : free) {
    if (p == ConvolutionParameter::coarse_tiles) continue;
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
