#pragma once
// Time of a convolution, forward or one of its gradients, as the product it is: `groups` times C[m,n] += A[m,k] B[k,n]
// with m output pixels of the batch, n output channels and k input channels times window (implicit GEMM: the patches A
// are never written).
//
//   F  = 2 groups m n k / saving        Tc = F / (e * Peak)        Tm = bytes / (f * HBM)        T = t0 + (Tc^p +
//   Tm^p)^(1/p)
//
// `saving` is the share of multiplications that minimal filtering leaves out. On CUDA cores (fp32) libraries run dense
// windows as F(2, r) along each side: r + 1 multiplications for 2r (Winograd 1980; Lavin and Gray 2015,
// arXiv:1509.09308), 2.25 times fewer for 3 x 3. Without it measured VGG-16 steps would beat the peak of the GPU they
// ran on. Tensor cores compute products faster than such transforms: no saving. Efficiency e is one number per
// generation, class and kind of arithmetic: what a library reaches on layers of that class, transforms included.

#include <string_view>

#include "core/base/units.hpp"
#include "core/price/calibration/calibration.hpp"

namespace rehearse {

/// Counts, at least 1; `side` lengths of the window.
struct ConvolutionShape {
  double groups = 1;
  double m = 1, n = 1, k = 1;
  double window[3] = {1, 1, 1};  ///< Length per side; sides that are missing are 1.
  int sides = 2;
  bool dense = true;    ///< Stride and dilation are 1 on every side.
  double channels = 1;  ///< Input channels of a group.
};

/// Layers that libraries treat alike.
enum class ConvolutionClass {
  pointwise,  ///< 1 x 1: a plain product.
  dense,      ///< Square windows of images, up to 5 x 5, stride and dilation 1: the transforms' ground.
  spatial,    ///< Other larger windows: strided, dilated, 1 x 7, volumes.
  first,      ///< Up to 4 input channels: short k, image in.
  depthwise,  ///< One input channel per group: bound by memory.
};
inline constexpr int kConvolutionClasses = 5;
[[nodiscard]] ConvolutionClass class_of(const ConvolutionShape& shape);

/// Calibration group: "conv_pointwise", ...; with tensor cores "conv_pointwise_tensor", ... Depthwise convolutions have
/// one for both.
[[nodiscard]] std::string_view group_of(ConvolutionClass c, bool tensor_cores);

struct ConvolutionConstants {
  double efficiency = 0;          ///< e, (0, 1].
  double bandwidth_fraction = 0;  ///< f, (0, 1].
  Seconds fixed;                  ///< t0.
  double overlap_power = 1;       ///< p, at least 1.
};

/// 2 groups m n k.
[[nodiscard]] Flops convolution_flops(const ConvolutionShape& s);
/// Product over sides of 2 r / (r + 1) for dense windows on CUDA cores, else 1.
[[nodiscard]] double filtering_saving(const ConvolutionShape& s, bool tensor_cores);
/// The largest saving any implementation reaches, for the physics check: F(4, r), 4 r / (r + 3) per side (36
/// multiplications for 144 with 3 x 3).
[[nodiscard]] double largest_saving(const ConvolutionShape& s, bool tensor_cores);

struct ConvolutionTime {
  Seconds compute, memory, total;
  double compute_share = 0, memory_share = 0;  ///< As GemmTime's.
};
[[nodiscard]] ConvolutionTime convolution_time(const ConvolutionShape& s, Bytes traffic, const ConvolutionConstants& c,
                                               bool tensor_cores, FlopsPerSecond peak, BytesPerSecond hbm);

}  // namespace rehearse
