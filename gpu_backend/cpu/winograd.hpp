#pragma once
// Convolutions with windows of 3 x 3 pixels, one pixel apart, in 2.25 times fewer multiplications: Winograd's minimal
// filtering F(2 x 2, 3 x 3) (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016, section
// 4). Tiles of 4 x 4 pixels and the windows' weights are brought into a space of 16 numbers, in which every number is a
// matrix product over the channels. Rounding is that of sums of so many terms: relative 1e-6 in fp32.

#include <cstdint>

namespace rehearse {

/// Images [samples, channels, height, width] that are read and made.
struct TileImages {
  struct Image {
    std::int64_t channels, height, width;
  };
  std::int64_t samples;
  Image read, made;
  /// Pixel (i, j) of what is made reads pixels (i + down, j + right) to (i + down + 2, j + right + 2); what lies
  /// outside the image is zero.
  std::int64_t down, right;
};

/// Whether tiles are worth their way there and back: many channels on both sides, and many tiles for the weights.
[[nodiscard]] bool tiles_pay(const TileImages& images);

/// made = windows of `read` times `weights` [made channels, read channels, 3, 3].
void convolve_tiles(const TileImages& images, const float* read, const float* weights, float* made);
/// The same with weights [read channels, made channels, 3, 3], each window turned by half a turn: the gradient of what
/// the convolution with these weights read.
void convolve_tiles_back(const TileImages& images, const float* read, const float* weights, float* made);
/// Adds to `gradient` [made channels, read channels, 3, 3] that of the weights; `made` is the gradient of what was
/// made.
void tiles_weight_gradient(const TileImages& images, const float* read, const float* made, float* gradient);

}  // namespace rehearse
