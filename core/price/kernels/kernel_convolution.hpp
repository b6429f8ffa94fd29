#pragma once
// Time of a convolution, forward or one of its gradients. Libraries have several algorithms for one and run the
// fastest; so does the price:
//
// product      `groups` times C[m,n] += A[m,k] B[k,n] with m output pixels of the batch, n output channels and k input
//              channels times window, whose patches A are never written (implicit GEMM). The input's gradient has
//              pixels by input channels, and for a stride of s one such product for each of the s positions, each as
//              deep as the most of the window that falls on one; the weight's gradient has channels by channels times
//              window, and pixels as its depth, which is divided among idle SMs. Tiles and waves are those of matrix
//              products (kernel_gemm.hpp). Tensor cores' kernels go through the window position by position: forward
//              each adds a depth of whole 64 bytes of channels, and for weights each is a product of its own.
// written      The input's gradient of CUDA cores by way of its patches: one product of pixels by input channels times
//              window writes them, and a second kernel adds them up.
// fused        Minimal filtering F(2, 3) along each side, in one kernel: 16 products of pixels / 4 by channels, 2.25
//              times fewer multiplications than nine of pixels (Winograd 1980; Lavin and Gray 2015, arXiv:1509.09308).
//              A thread block has all 16 of 128 by 32.
// transformed  Input, window and output are transformed and written, products run between them: F(4, 3) and F(2, 5)
//              with 36 points each, and tiles of 32 x 32 of a Fourier transform, 1,024 points of two real products
//              each.
//
//   Tc = (seconds of its tiles at the peak) / e      Tm = bytes / (f * HBM)
//   T  = t0 + (Tc^p + Tm^p)^(1/p)                    written, transformed, weights on CUDA cores: T = t0 + Tc + Tm
//
// Filtering is for square windows of 3 or 5 with stride and dilation 1 on CUDA cores, and for weights from 128 input
// channels on: tensor cores compute products faster than such transforms, and cuDNN chose none there for any of 188
// measured layers. A window smaller than the stride leaves input unread.

#include <array>
#include <string_view>

#include "core/base/index.hpp"
#include "core/base/units.hpp"
#include "core/price/calibration/calibration.hpp"

namespace rehearse {

enum class ConvolutionPass { forward, input_grad, weight_grad };

/// Counts, at least 1; `side` lengths of the window.
struct ConvolutionShape {
  ConvolutionPass pass = ConvolutionPass::forward;
  double groups = 1;
  double m = 1;                       ///< Output pixels of the batch.
  double in = 1, out = 1;             ///< Channels of a group.
  double window[3] = {1, 1, 1};       ///< Length per side; sides that are missing are 1.
  double output_side[3] = {0, 0, 0};  ///< Of an output image; 0: not known, taken as whole tiles.
  int sides = 2;
  double stride = 1;  ///< Product over the sides.
  bool dense = true;  ///< Stride and dilation are 1 on every side.
};

/// Groups of constants: products and filtering on CUDA cores; products on tensor cores; one input channel per group,
/// bound by memory.
enum class ConvolutionClass { cuda, tensor, depthwise };
inline constexpr int kConvolutionClasses = 3;
[[nodiscard]] ConvolutionClass class_of(const ConvolutionShape& shape, bool tensor_cores);
/// "convolution", "convolution_tensor", "convolution_depthwise".
[[nodiscard]] std::string_view group_of(ConvolutionClass c);

enum class ConvolutionParameter {
  efficiency_forward,  ///< e of products, by pass, (0, 1].
  efficiency_input_grad,
  efficiency_weight_grad,
  efficiency_pointwise,    ///< CUDA cores: of weights of a window of 1.
  efficiency_fused,        ///< CUDA cores: of fused filtering.
  efficiency_transformed,  ///< CUDA cores: of products between transforms.
  bandwidth_fraction,      ///< f, (0, 1].
  bandwidth_weight_grad,   ///< CUDA cores: f for weights.
  bandwidth_transformed,   ///< CUDA cores: f of patches and transforms.
  fixed_s,                 ///< t0, forward and for the input.
  fixed_weight_grad_s,     ///< t0 for weights.
  divided_weight_grad_s,   ///< Tensor cores: what each doubling of a divided depth adds to it, three times at most.
  least_input_grad_s,      ///< Tensor cores: an input's gradient takes no less.
  overlap_power,           ///< p, at least 1.
  tile_penalty_forward,    ///< c of tile_wave, by pass.
  tile_penalty_input_grad,
  tile_penalty_weight_grad,
  wave_quantisation,  ///< Tensor cores: a of tile_wave, [0, 1]. CUDA cores have 1.
  /// Tensor cores: an input gradient whose window misses positions of its stride takes as often as long, to this
  /// power. 0: nothing for them, 1: as for others.
  strided,
  rewritten_weights,  ///< Tensor cores: how often weights' gradients are moved besides the once.
  /// 0 or 1. CUDA cores: tiles are chosen by channels alone, not for idle SMs. Tensor cores: none smaller than 128 by
  /// 128 for weights.
  coarse_tiles
};
inline constexpr int kConvolutionParameters = 21;
/// Whether a class of kernels has the constant.
[[nodiscard]] bool has(ConvolutionClass c, ConvolutionParameter p);
/// Name of the constant in a calibration profile.
[[nodiscard]] std::string_view name_of(ConvolutionParameter p);

struct ConvolutionConstants {
  std::array<double, kConvolutionParameters> values{};
  [[nodiscard]] double operator[](ConvolutionParameter p) const { return nth(values, p); }
};

/// 2 groups m out (in window).
[[nodiscard]] Flops convolution_flops(const ConvolutionShape& s);
/// The largest share of multiplications that any of the algorithms saves, for the physics check: with 3 x 3, 4 times
/// fewer.
[[nodiscard]] double largest_saving(const ConvolutionShape& s, bool tensor_cores);

/// What the datasheet says for one arithmetic type, and bytes of an element.
struct ConvolutionRates {
  FlopsPerSecond peak;
  BytesPerSecond hbm;
  int sms = 1;
  double element = 2;
};

struct ConvolutionTime {
  std::string_view algorithm;  ///< "product", "written", "fused" or "transformed".
  Seconds compute, memory, fixed, total;
  double compute_share = 0, memory_share = 0;  ///< As GemmTime's.
};
/// `traffic`: every operand once.
[[nodiscard]] ConvolutionTime convolution_time(const ConvolutionShape& s, Bytes traffic, const ConvolutionConstants& c,
                                               ConvolutionClass cls, const ConvolutionRates& rates);

}  // namespace rehearse
