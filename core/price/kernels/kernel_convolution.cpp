#include "core/price/kernels/kernel_convolution.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/price/kernels/kernel_gemm.hpp"

namespace rehearse {
namespace {

using enum ConvolutionParameter;

constexpr double kVector = 16;          // Bytes that tensor cores' kernels load in one go.
constexpr double kFewChannels = 4;      // Fewer than a vector of any type but fp32.
constexpr double kShortestDepth = 512;  // Of a product's divided depth.

/// An algorithm that multiplies points of transformed tiles: `points` products for each tile of q x q outputs.
struct Transform {
  double q, points;
  bool fused;
};

bool filtered(const ConvolutionShape& s, bool tensor_cores) {
  const double r = s.window[0];
  return !tensor_cores && s.dense && s.groups == 1 && s.sides == 2 && r == s.window[1] && (r == 3 || r == 5) &&
         s.in > kFewChannels;
}

std::vector<Transform> transforms(const ConvolutionShape& s) {
  const double r = s.window[0];
  constexpr double kFourier = 32;
  std::vector<Transform> out{{7 - r, 36, false}, {kFourier - r + 1, 2 * kFourier * kFourier, false}};
  if (r == 3 && s.pass != ConvolutionPass::weight_grad) out.push_back({2, 16, true});
  return out;
}

double window_of(const ConvolutionShape& s) { return s.window[0] * s.window[1] * s.window[2]; }

ConvolutionParameter of_pass(ConvolutionParameter forward, ConvolutionPass pass) {
  return static_cast<ConvolutionParameter>(static_cast<int>(forward) + static_cast<int>(pass));
}

/// Seconds of a product's tiles at the peak.
double seconds(const GemmShape& g, const ConvolutionShape& s, const ConvolutionConstants& c,
               const ConvolutionRates& rates, bool divided) {
  const TileRates tiles{.penalty = c[of_pass(tile_penalty_forward, s.pass)],
                        .wave_quantisation = c[wave_quantisation],
                        .peak_per_sm = rates.peak.value() / rates.sms,
                        .sms = rates.sms,
                        .shortest_depth = divided ? kShortestDepth : 0,
                        .narrow = true};
  return tiled_seconds(g, tiles);
}

double product_seconds(const ConvolutionShape& s, const ConvolutionConstants& c, ConvolutionClass cls,
                       const ConvolutionRates& rates) {
  const double step = cls == ConvolutionClass::tensor ? kVector / rates.element : 1;
  const double in = step * std::ceil(s.in / step), window = window_of(s);
  switch (s.pass) {
    case ConvolutionPass::forward:
      return seconds({s.groups, s.m, s.out, in * window}, s, c, rates, cls == ConvolutionClass::tensor);
    case ConvolutionPass::weight_grad: return seconds({s.groups, s.out, in * window, s.m}, s, c, rates, true);
    case ConvolutionPass::input_grad: break;
  }
  return seconds({s.groups * s.stride, s.m, in, s.out * window / s.stride}, s, c, rates, false) *
         std::pow(s.stride, c[strided]);
}

ConvolutionTime joined(std::string_view algorithm, double compute, double memory, const ConvolutionConstants& c,
                       bool overlap) {
  const double high = std::max(compute, memory), power = overlap ? c[overlap_power] : 1.0;
  ConvolutionTime t{algorithm, Seconds{compute}, Seconds{memory}, Seconds{c[fixed_s]}, Seconds{c[fixed_s]}, 0, 0};
  if (high <= 0) return t;
  const double low = std::pow(std::min(compute, memory) / high, power);
  const double body = high * std::pow(1.0 + low, 1.0 / power);
  t.total = t.fixed + Seconds{body};
  const double moving = body / t.total.value(), dominant = 1.0 / (1.0 + low);
  t.compute_share = moving * (compute >= memory ? dominant : 1.0 - dominant);
  t.memory_share = moving - t.compute_share;
  return t;
}

ConvolutionTime transformed(const Transform& a, const ConvolutionShape& s, Bytes traffic, const ConvolutionConstants& c,
                            const ConvolutionRates& rates) {
  double tiles = s.m / (a.q * a.q);
  for (int i = 0; i < s.sides; ++i)
    if (const double side = s.output_side[i]; side > 0) tiles *= std::ceil(side / a.q) * a.q / side;
  const GemmShape g = s.pass == ConvolutionPass::forward      ? GemmShape{a.points, tiles, s.out, s.in}
                      : s.pass == ConvolutionPass::input_grad ? GemmShape{a.points, tiles, s.in, s.out}
                                                              : GemmShape{a.points, s.out, s.in, tiles};
  const double moved =
      traffic.value() + (a.fused ? 0 : 2 * rates.element * a.points * (tiles * (s.in + s.out) + s.in * s.out));
  return joined(a.fused ? "fused" : "transformed",
                seconds(g, s, c, rates, s.pass == ConvolutionPass::weight_grad) / c[efficiency_transformed],
                moved / (c[bandwidth_fraction] * rates.hbm.value()), c, a.fused);
}

}  // namespace

ConvolutionClass class_of(const ConvolutionShape& s, bool tensor_cores) {
  if (s.groups > 1 && s.in == 1) return ConvolutionClass::depthwise;
  return tensor_cores ? ConvolutionClass::tensor : ConvolutionClass::cuda;
}

std::string_view group_of(ConvolutionClass c) {
  constexpr std::array<std::string_view, kConvolutionClasses> kGroups{"convolution", "convolution_tensor",
                                                                      "convolution_depthwise"};
  return nth(kGroups, c);
}

std::string_view name_of(ConvolutionParameter p) {
  constexpr std::array<std::string_view, kConvolutionParameters> kNames{"efficiency_forward",
                                                                        "efficiency_input_grad",
                                                                        "efficiency_weight_grad",
                                                                        "efficiency_first",
                                                                        "efficiency_transformed",
                                                                        "bandwidth_fraction",
                                                                        "fixed_s",
                                                                        "overlap_power",
                                                                        "tile_penalty_forward",
                                                                        "tile_penalty_input_grad",
                                                                        "tile_penalty_weight_grad",
                                                                        "wave_quantisation",
                                                                        "strided"};
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
  const double memory = traffic.value() / (c[bandwidth_fraction] * rates.hbm.value());
  if (cls == ConvolutionClass::depthwise)
    return joined("product", convolution_flops(s).value() / (c[efficiency_forward] * rates.peak.value()), memory, c,
                  true);
  const double e = s.in <= kFewChannels && s.groups == 1 ? c[efficiency_first] : c[of_pass(efficiency_forward, s.pass)];
  ConvolutionTime best = joined("product", product_seconds(s, c, cls, rates) / e, memory, c, true);
  if (filtered(s, cls == ConvolutionClass::tensor))
    for (const Transform& a : transforms(s))
      if (const ConvolutionTime t = transformed(a, s, traffic, c, rates); t.total < best.total) best = t;
  return best;
}

}  // namespace rehearse
