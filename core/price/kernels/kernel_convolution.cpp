#include "core/price/kernels/kernel_convolution.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/index.hpp"

namespace rehearse {
namespace {

/// Product over sides of m r / (m + r - 1): minimal filtering that makes m outputs at a time.
double saving(const ConvolutionShape& s, double m) {
  double out = 1;
  for (const double r : s.window)
    if (r > 1) out *= m * r / (m + r - 1);
  return out;
}

}  // namespace

ConvolutionClass class_of(const ConvolutionShape& s) {
  if (s.groups > 1 && s.channels == 1) return ConvolutionClass::depthwise;
  if (s.groups == 1 && s.channels <= 4) return ConvolutionClass::first;
  const bool pointwise = std::all_of(std::begin(s.window), std::end(s.window), [](double r) { return r == 1; });
  if (pointwise) return ConvolutionClass::pointwise;
  const bool square = s.sides == 2 && s.window[0] == s.window[1] && s.window[0] <= 5;
  return square && s.dense ? ConvolutionClass::dense : ConvolutionClass::spatial;
}

std::string_view group_of(ConvolutionClass c, bool tensor_cores) {
  constexpr std::array<std::string_view, kConvolutionClasses> kCuda{"conv_pointwise", "conv_dense", "conv_spatial",
                                                                    "conv_first", "conv_depthwise"};
  constexpr std::array<std::string_view, kConvolutionClasses> kTensor{
      "conv_pointwise_tensor", "conv_dense_tensor", "conv_spatial_tensor", "conv_first_tensor", "conv_depthwise"};
  return nth((tensor_cores ? kTensor : kCuda), c);
}

Flops convolution_flops(const ConvolutionShape& s) { return Flops{2.0 * s.groups * s.m * s.n * s.k}; }

double filtering_saving(const ConvolutionShape& s, bool tensor_cores) {
  return !tensor_cores && class_of(s) == ConvolutionClass::dense ? saving(s, 2) : 1.0;
}

double largest_saving(const ConvolutionShape& s, bool tensor_cores) {
  return tensor_cores || !s.dense ? 1.0 : saving(s, 4);
}

ConvolutionTime convolution_time(const ConvolutionShape& s, Bytes traffic, const ConvolutionConstants& c,
                                 bool tensor_cores, FlopsPerSecond peak, BytesPerSecond hbm) {
  const double compute =
      convolution_flops(s).value() / filtering_saving(s, tensor_cores) / (c.efficiency * peak.value());
  const double memory = traffic.value() / (c.bandwidth_fraction * hbm.value());
  const double high = std::max(compute, memory);
  ConvolutionTime t{Seconds{compute}, Seconds{memory}, c.fixed, 0, 0};
  if (high <= 0) return t;
  const double low = std::pow(std::min(compute, memory) / high, c.overlap_power);
  const double body = high * std::pow(1.0 + low, 1.0 / c.overlap_power);
  t.total = c.fixed + Seconds{body};
  const double moving = body / t.total.value(), dominant = 1.0 / (1.0 + low);
  t.compute_share = moving * (compute >= memory ? dominant : 1.0 - dominant);
  t.memory_share = moving - t.compute_share;
  return t;
}

}  // namespace rehearse
