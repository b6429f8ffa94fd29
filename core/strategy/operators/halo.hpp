#pragma once
// Windows over tiles: which rows and columns of its neighbours a tile's window reads, and the tasks that bring them.

#include <string>
#include <vector>

#include "core/strategy/bodies/block_lowering.hpp"

namespace rehearse {

/// Elements of one side that a tile's neighbours must lend, at most over all tiles.
struct HaloNeed {
  std::int64_t before = 0, after = 0;
  bool fits = true;  ///< No tile is empty and none needs more than its direct neighbour has.
};

/// What windows need of their input where a side of `in` elements, tiled into `tiles` slices as Shard cuts them,
/// becomes one of `out`: tile [a, b) of the output reads input [a s - p, (b - 1) s - p + d (k - 1) + 1). Elements
/// outside the image are padding, nobody's.
[[nodiscard]] HaloNeed halo_of_input(const WindowDim& w, std::int64_t in, std::int64_t out, int tiles);

/// What the gradient of a tile of the input needs of the output's gradient: tile [a, b) of the input was read by
/// outputs ceil((a + p - d (k - 1)) / s) to floor((b - 1 + p) / s).
[[nodiscard]] HaloNeed halo_of_gradient(const WindowDim& w, std::int64_t in, std::int64_t out, int tiles);

/// The same of a convolution or pool, whose sides are swapped where it is transposed.
[[nodiscard]] HaloNeed input_need(const OpSpec& op, std::size_t side, std::int64_t in, std::int64_t out, int tiles);
[[nodiscard]] HaloNeed gradient_need(const OpSpec& op, std::size_t side, std::int64_t in, std::int64_t out, int tiles);

/// Adds one exchange per axis on which `formal`, a tensor with halos, has one; later axes send the earlier ones' halos
/// too, so corners arrive without messages of their own. Works in place; where `base` is given, `formal` first gets its
/// elements.
void exchange_halos(BodyBuilder& builder, int formal, const std::string& name, Phase phase, int base = -1);

/// Input of a convolution or pool as its kernel reads it: halos filled, or gathered where the output is not tiled.
[[nodiscard]] int windowed_input(BlockBody& b, const OpSpec& op, const std::string& why);
/// Layout of the gradient that its backward makes of the input.
[[nodiscard]] Layout input_gradient_layout(BlockBody& b, const OpSpec& op);
/// Gradient of its output with the halos that the input's gradient needs; the layouts as stored where it needs none.
[[nodiscard]] int windowed_gradient(BlockBody& b, const OpSpec& op, const std::string& why);
/// `formal`, laid out as the output, with the same halos: for what backward reads beside the gradient.
[[nodiscard]] int with_gradient_halos(BlockBody& b, const OpSpec& op, int formal, const std::string& why);

/// Kernel, stride, padding and dilation per side, as ComputeTask::scalars holds them.
[[nodiscard]] std::vector<double> window_scalars(const OpSpec& op);

}  // namespace rehearse
