#include "core/price/kernels/kernel_convolution.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/price/kernels/convolution_traffic.hpp"
#include "core/price/kernels/kernel_gemm.hpp"

namespace rehearse {
namespace {

using enum ConvolutionParameter;

constexpr double kVector = 16;            // Bytes that tensor cores' kernels load in one go.
constexpr double kDepthBytes = 64;        // Of channels that they multiply in one go.
constexpr double kFewChannels = 4;        // Fewer than a vector of any type but fp32.
constexpr double kFilteredWeights = 128;  // Input channels from which on cuDNN filters for weights.
constexpr double kShortestDepth = 512;    // Of a product's divided depth.
constexpr double kDoublings = 3;          // Of a divided depth that take time.
constexpr double kFusedPoints = 16;

// Kernels of cuDNN, by their names: CUDA cores' are 128 pixels high, those of tensor cores for inputs have 16,384
// elements or more.
constexpr unsigned kColumns = tiles_128x128 | tiles_128x64 | tiles_128x32;
constexpr unsigned kLarge = tiles_256x128 | tiles_128x256 | tiles_128x128 | tiles_256x64 | tiles_64x256;
constexpr unsigned kCoarse = tiles_256x128 | tiles_128x256 | tiles_128x128;
constexpr unsigned kBetweenTransforms = tiles_128x128 | tiles_128x64 | tiles_64x64;

/// An algorithm that multiplies points of transformed tiles: `points` products for each tile of q x q outputs.
struct Transform {
  double q, points;
  bool fused;
};

bool filtered(const ConvolutionShape& s, bool tensor_cores) {
  const double r = s.window[0];
  const double fewest = s.pass == ConvolutionPass::weight_grad ? kFilteredWeights : kFewChannels + 1;
  return !tensor_cores && s.dense && s.groups == 1 && s.sides == 2 && r == s.window[1] && (r == 3 || r == 5) &&
         s.in >= fewest;
}

std::vector<Transform> transforms(const ConvolutionShape& s) {
  const double r = s.window[0];
  constexpr double kFourier = 32;
  std::vector<Transform> out{{7 - r, 36, false}, {kFourier - r + 1, 2 * kFourier * kFourier, false}};
  if (r == 3 && s.pass != ConvolutionPass::weight_grad) out.push_back({2, kFusedPoints, true});
  return out;
}

double window_of(const ConvolutionShape& s) { return s.window[0] * s.window[1] * s.window[2]; }

double whole(double v, double step) { return step * std::ceil(v / step); }

ConvolutionParameter of_pass(ConvolutionParameter forward, ConvolutionPass pass) {
  return static_cast<ConvolutionParameter>(static_cast<int>(forward) + static_cast<int>(pass));
}

/// How a window lies over the positions of its stride, as products over the sides.
struct Stride {
  double met = 1;   ///< Positions that the window meets.
  double deep = 1;  ///< The most of the window that falls on one.
  double read = 1;  ///< Share of the input that is read; of whole rows where `rows`.
};
Stride stride_of(const ConvolutionShape& s, bool rows) {
  Stride out;
  const double stride = std::pow(s.stride, 1.0 / s.sides);
  for (int i = 0; i < s.sides; ++i) {
    out.met *= std::min(stride, s.window[i]);
    out.deep *= std::ceil(s.window[i] / stride);
    if (i == 0 || !rows) out.read *= std::min(1.0, s.window[i] / stride);
  }
  return out;
}

/// The products of one convolution on one GPU.
class Products {
 public:
  Products(const ConvolutionShape& s, const ConvolutionConstants& c, ConvolutionClass cls,
           const ConvolutionRates& rates)
      : s_(s), c_(c), tensor_(cls == ConvolutionClass::tensor), rates_(rates) {}

  [[nodiscard]] TiledProduct product() const {
    const double window = window_of(s_), depth = kDepthBytes / rates_.element;
    const bool coarse = c_[coarse_tiles] > 0;
    switch (s_.pass) {
      case ConvolutionPass::forward:
        return of_pass_tiles({s_.groups, s_.m, s_.out, window * (tensor_ ? whole(s_.in, depth) : s_.in)},
                             tensor_ ? kTilesFrom64 : columns(coarse));
      case ConvolutionPass::weight_grad:
        if (tensor_) return of_pass_tiles({s_.groups * window, s_.out, s_.in, s_.m}, coarse ? kCoarse : kTilesFrom64);
        return of_pass_tiles({s_.groups, s_.out, s_.in * window, s_.m}, kTilesFrom32);
      case ConvolutionPass::input_grad: break;
    }
    const Stride over = stride_of(s_, false);
    if (!tensor_) return of_pass_tiles({s_.groups * s_.stride, s_.m, s_.in, over.deep * s_.out}, kTilesFrom32);
    TiledProduct t = of_pass_tiles({s_.groups * over.met, s_.m, s_.in, over.deep * whole(s_.out, depth)}, kLarge);
    t.seconds *= std::pow(s_.stride / over.met, c_[strided]);
    return t;
  }

  /// Of pixels by all that an input's gradient adds up.
  [[nodiscard]] double patches() const {
    return of_pass_tiles({s_.groups, s_.m, s_.in * window_of(s_), s_.out}, kTilesFrom32).seconds;
  }

  [[nodiscard]] double transformed(const Transform& a, double tiles) const {
    const bool forward = s_.pass == ConvolutionPass::forward;
    const double in = forward ? s_.in : s_.out, out = forward ? s_.out : s_.in;
    if (a.fused) return tiled({1, tiles, out, a.points * in}, rates(0, 0, tiles_128x32)).seconds;
    if (s_.pass == ConvolutionPass::weight_grad)
      return tiled({a.points, s_.out, s_.in, tiles}, rates(0, kShortestDepth, kBetweenTransforms)).seconds;
    return tiled({a.points, tiles, out, in}, rates(0, 0, kBetweenTransforms)).seconds;
  }

 private:
  [[nodiscard]] unsigned columns(bool coarse) const {
    if (!coarse) return kColumns;
    return s_.out <= 32 ? tiles_128x32 : s_.out <= 64 ? tiles_128x64 : tiles_128x128;
  }

  [[nodiscard]] TileRates rates(double penalty, double shortest, unsigned tiles) const {
    return {.penalty = penalty,
            .wave_quantisation = tensor_ ? c_[wave_quantisation] : 1,
            .peak_per_sm = rates_.peak.value() / rates_.sms,
            .sms = rates_.sms,
            .shortest_depth = shortest,
            .tiles = tiles};
  }

  [[nodiscard]] TiledProduct of_pass_tiles(const GemmShape& g, unsigned tiles) const {
    const double shortest = s_.pass == ConvolutionPass::weight_grad ? kShortestDepth : 0;
    return tiled(g, rates(c_[of_pass(tile_penalty_forward, s_.pass)], shortest, tiles));
  }

  const ConvolutionShape& s_;
  const ConvolutionConstants& c_;
  bool tensor_;
  const ConvolutionRates& rates_;
};

/// Bytes of the input. Padding of windows over small images would count more of it than there is.
double input_bytes(const ConvolutionShape& s, Bytes traffic, double element) {
  const double weights = s.groups * s.in * s.out * window_of(s) * element;
  return std::clamp(s.groups * s.m * s.stride * s.in * element, 0.0, std::max(0.0, traffic.value() - weights));
}

/// Bytes that kernels move, of the traffic of every operand once.
double moved_by(const ConvolutionShape& s, Bytes traffic, const ConvolutionConstants& c, bool tensor, double element) {
  double moved = (traffic - unread_input(s, traffic, tensor, element)).value();
  if (!tensor) return moved;
  moved += input_bytes(s, traffic, element) * (whole(s.in, kVector / element) / s.in - 1);
  if (s.pass == ConvolutionPass::weight_grad)
    moved += c[rewritten_weights] * s.groups * s.in * s.out * window_of(s) * element;
  return moved;
}

/// `power` 1: one after the other.
ConvolutionTime joined(std::string_view algorithm, double compute, double memory, double fixed, double power) {
  const double high = std::max(compute, memory);
  ConvolutionTime t{algorithm, Seconds{compute}, Seconds{memory}, Seconds{fixed}, Seconds{fixed}, 0, 0};
  if (high <= 0) return t;
  const double low = std::pow(std::min(compute, memory) / high, power);
  const double body = high * std::pow(1.0 + low, 1.0 / power);
  t.total = t.fixed + Seconds{body};
  const double moving = body / t.total.value(), dominant = 1.0 / (1.0 + low);
  t.compute_share = moving * (compute >= memory ? dominant : 1.0 - dominant);
  t.memory_share = moving - t.compute_share;
  return t;
}

ConvolutionTime on_tensor_cores(const ConvolutionShape& s, Bytes traffic, const ConvolutionConstants& c,
                                const ConvolutionRates& rates) {
  const TiledProduct p = Products(s, c, ConvolutionClass::tensor, rates).product();
  const bool weights = s.pass == ConvolutionPass::weight_grad;
  const bool divided = weights && window_of(s) > 1;
  const double fixed = c[weights ? fixed_weight_grad_s : fixed_s] +
                       (divided ? c[divided_weight_grad_s] * std::min(kDoublings, std::log2(p.pieces)) : 0);
  const double moved = moved_by(s, traffic, c, true, rates.element);
  ConvolutionTime t = joined("product", p.seconds / c[of_pass(efficiency_forward, s.pass)],
                             moved / (c[bandwidth_fraction] * rates.hbm.value()), fixed, c[overlap_power]);
  if (s.pass == ConvolutionPass::input_grad) t.total = std::max(t.total, Seconds{c[least_input_grad_s]});
  return t;
}

ConvolutionTime transformed(const Transform& a, const ConvolutionShape& s, double moved, double fixed,
                            const ConvolutionConstants& c, const ConvolutionRates& rates) {
  double tiles = s.m / (a.q * a.q);
  for (int i = 0; i < s.sides; ++i)
    if (const double side = s.output_side[i]; side > 0) tiles *= std::ceil(side / a.q) * a.q / side;
  const double seconds = Products(s, c, ConvolutionClass::cuda, rates).transformed(a, tiles);
  if (a.fused)
    return joined("fused", seconds / c[efficiency_fused], moved / (c[bandwidth_fraction] * rates.hbm.value()), fixed,
                  c[overlap_power]);
  moved += 2 * rates.element * a.points * (tiles * (s.in + s.out) + s.in * s.out);
  return joined("transformed", seconds / c[efficiency_transformed],
                moved / (c[bandwidth_transformed] * rates.hbm.value()), fixed, 1);
}

ConvolutionTime on_cuda_cores(const ConvolutionShape& s, Bytes traffic, const ConvolutionConstants& c,
                              const ConvolutionRates& rates) {
  const Products products(s, c, ConvolutionClass::cuda, rates);
  const bool weights = s.pass == ConvolutionPass::weight_grad;
  const double fixed = c[weights ? fixed_weight_grad_s : fixed_s], hbm = rates.hbm.value();
  const double moved = moved_by(s, traffic, c, false, rates.element);
  const double memory = moved / (c[weights ? bandwidth_weight_grad : bandwidth_fraction] * hbm);
  const double e = weights && window_of(s) == 1 ? c[efficiency_pointwise] : c[of_pass(efficiency_forward, s.pass)];
  ConvolutionTime best =
      joined("product", products.product().seconds / e, memory, fixed, weights ? 1 : c[overlap_power]);
  const auto take = [&](const ConvolutionTime& t) {
    if (t.total < best.total) best = t;
  };
  if (s.pass == ConvolutionPass::input_grad) {
    const double patches = 2 * rates.element * s.groups * s.m * s.in * window_of(s);
    take(joined("written", products.patches() / e, memory + patches / (c[bandwidth_transformed] * hbm), fixed, 1));
  }
  if (filtered(s, false))
    for (const Transform& a : transforms(s)) take(transformed(a, s, moved, fixed, c, rates));
  return best;
}

}  // namespace

Bytes unread_input(const ConvolutionShape& s, Bytes traffic, bool tensor_cores, double element) {
  if (s.pass == ConvolutionPass::input_grad || class_of(s, tensor_cores) == ConvolutionClass::depthwise)
    return Bytes{0};
  return Bytes{input_bytes(s, traffic, element) * (1 - stride_of(s, !tensor_cores).read)};
}

ConvolutionClass class_of(const ConvolutionShape& s, bool tensor_cores) {
  if (s.groups > 1 && s.in == 1) return ConvolutionClass::depthwise;
  return tensor_cores ? ConvolutionClass::tensor : ConvolutionClass::cuda;
}

std::string_view group_of(ConvolutionClass c) {
  constexpr std::array<std::string_view, kConvolutionClasses> kGroups{"convolution", "convolution_tensor",
                                                                      "convolution_depthwise"};
  return nth(kGroups, c);
}

bool has(ConvolutionClass c, ConvolutionParameter p) {
  switch (p) {
    case efficiency_forward:
    case bandwidth_fraction:
    case fixed_s:
    case overlap_power: return true;
    case efficiency_pointwise:
    case efficiency_fused:
    case efficiency_transformed:
    case bandwidth_weight_grad:
    case bandwidth_transformed: return c == ConvolutionClass::cuda;
    case divided_weight_grad_s:
    case least_input_grad_s:
    case wave_quantisation:
    case strided:
    case rewritten_weights: return c == ConvolutionClass::tensor;
    default: return c != ConvolutionClass::depthwise;
  }
}

std::string_view name_of(ConvolutionParameter p) {
  constexpr std::array<std::string_view, kConvolutionParameters> kNames{"efficiency_forward",
                                                                        "efficiency_input_grad",
                                                                        "efficiency_weight_grad",
                                                                        "efficiency_pointwise",
                                                                        "efficiency_fused",
                                                                        "efficiency_transformed",
                                                                        "bandwidth_fraction",
                                                                        "bandwidth_weight_grad",
                                                                        "bandwidth_transformed",
                                                                        "fixed_s",
                                                                        "fixed_weight_grad_s",
                                                                        "divided_weight_grad_s",
                                                                        "least_input_grad_s",
                                                                        "overlap_power",
                                                                        "tile_penalty_forward",
                                                                        "tile_penalty_input_grad",
                                                                        "tile_penalty_weight_grad",
                                                                        "wave_quantisation",
                                                                        "strided",
                                                                        "rewritten_weights",
                                                                        "coarse_tiles"};
  return nth(kNames, p);
}

Flops convolution_flops(const ConvolutionShape& s) { return Flops{2.0 * s.groups * s.m * s.out * s.in * window_of(s)}; }

double largest_saving(const ConvolutionShape& s, bool tensor_cores) {
  double most = 1;
  if (!filtered(s, tensor_cores)) return most;
  for (const Transform& a : transforms(s)) most = std::max(most, a.q * a.q * window_of(s) / a.points);
  return most;
}

ConvolutionTime convolution_time(const ConvolutionShape& s, Bytes traffic, const ConvolutionConstants& c,
                                 ConvolutionClass cls, const ConvolutionRates& rates) {
  if (cls == ConvolutionClass::tensor) return on_tensor_cores(s, traffic, c, rates);
  if (cls == ConvolutionClass::cuda) return on_cuda_cores(s, traffic, c, rates);
  return joined("product", convolution_flops(s).value() / (c[efficiency_forward] * rates.peak.value()),
                traffic.value() / (c[bandwidth_fraction] * rates.hbm.value()), c[fixed_s], c[overlap_power]);
}

}  // namespace rehearse
