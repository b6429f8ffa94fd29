#pragma once
// What operators over images tell kernels about their operands.

#include "gpu_backend/cuda/kernels/images.hpp"
#include "gpu_backend/cuda/ops/operands.hpp"

namespace rehearse::cuda {

[[nodiscard]] inline Own own_of(const TensorView& x) {
  Own out;
  out.rank = static_cast<int>(x.rank());
  if (out.rank > Own::kMaxRank) throw Error(ErrorKind::unavailable, "images of more than three sides", "cuda");
  for (std::size_t d = 0; d < x.rank(); ++d) {
    out.extents[d] = x.extent(d);
    out.first[d] = x.held->inner[d].first;
    out.length[d] = x.held->inner[d].length;
    out.whole = out.whole && out.length[d] == out.extents[d];
  }
  return out;
}
[[nodiscard]] inline Elements elements(const TensorView& x) { return {reals(x), own_of(x)}; }

[[nodiscard]] inline ImageSides sides_of(const TensorView& image) {
  ImageSides out;
  const std::size_t sides = image.rank() - 2;
  for (std::size_t i = 0; i < sides; ++i) {
    const std::size_t d = 2 + i, to = 3 - sides + i;
    out.length[to] = image.extent(d);
    out.first[to] = image.held->global[d].empty() ? 0 : image.held->global[d].front().first;
    out.global[to] = image.held->shape[d];
  }
  return out;
}
[[nodiscard]] inline std::int64_t global_pixels(const TensorView& image) {
  const ImageSides s = sides_of(image);
  return s.global[0] * s.global[1] * s.global[2];
}

/// From ComputeTask::scalars: kernel, stride, padding and dilation of every side.
[[nodiscard]] inline WindowShape window_of(const OperatorCall& c, std::size_t sides) {
  WindowShape out;
  for (std::size_t i = 0; i < sides; ++i) {
    const std::size_t to = 3 - sides + i;
    const auto number = [&](std::size_t n) { return static_cast<std::int64_t>(c.task->scalars.at(4 * i + n)); };
    out.kernel[to] = number(0), out.stride[to] = number(1), out.padding[to] = number(2), out.dilation[to] = number(3);
  }
  return out;
}
[[nodiscard]] inline Joined joined(const OperatorCall& c, const TensorView& small, const TensorView& large) {
  return {sides_of(small), sides_of(large), window_of(c, small.rank() - 2)};
}
[[nodiscard]] inline std::int64_t planes(const TensorView& image) { return image.extent(0) * image.extent(1); }

}  // namespace rehearse::cuda
