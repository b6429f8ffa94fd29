// Convolutions as products: the large image's windows become columns (Chellapilla et al. 2006), one per element of the
// small one. A transposed convolution has its sides swapped. Weights are [small channels, large channels of a group,
// window]. Over tiles the images come with the halos that their windows need.

#include "core/base/index.hpp"
#include "gpu_backend/cpu/blas.hpp"
#include "gpu_backend/cpu/cpu_device.hpp"
#include "gpu_backend/cpu/ops/image.hpp"
#include "gpu_backend/execute/operands.hpp"

namespace rehearse {

namespace {

/// The two images of a convolution, which is the small one, and how many channels a group has of each.
struct ConvolutionShapes {
  Sides small, large;
  Windows windows;
  std::int64_t groups, small_channels, large_channels, batch;

  ConvolutionShapes(const OperatorCall& c, const TensorView& small_image, const TensorView& large_image)
      : small(small_image),
        large(large_image),
        windows(c.task->scalars, small_image.rank() - 2),
        groups(static_cast<std::int64_t>(c.task->scalars.at(4 * (small_image.rank() - 2)))),
        small_channels(small_image.extent(1) / groups),
        large_channels(large_image.extent(1) / groups),
        batch(small_image.extent(0)) {}

  [[nodiscard]] std::int64_t rows() const { return large_channels * windows.elements(); }
  [[nodiscard]] std::int64_t small_at(std::int64_t sample, std::int64_t group) const {
    return (sample * groups + group) * small_channels * small.pixels();
  }
  [[nodiscard]] std::int64_t large_at(std::int64_t sample, std::int64_t group) const {
    return (sample * groups + group) * large_channels * large.pixels();
  }
  [[nodiscard]] std::int64_t weight_at(std::int64_t group) const { return group * small_channels * rows(); }
};

/// Columns [channels * window, small pixels] of a group's large image; what lies outside it is zero.
template <class T>
void to_columns(const ConvolutionShapes& s, const T* large, std::vector<T>& columns) {
  columns.assign(static_cast<std::size_t>(s.rows() * s.small.pixels()), T{0});
  for (std::int64_t ch = 0; ch < s.large_channels; ++ch) {
    const T* from = large + ch * s.large.pixels();
    T* to = columns.data() + ch * s.windows.elements() * s.small.pixels();
    meet(s.small, s.large, s.windows,
         [&](std::int64_t k, std::int64_t a, std::int64_t b, std::int64_t n, std::int64_t stride) {
           for (std::int64_t i = 0; i < n; ++i) to[k * s.small.pixels() + a + i] = from[b + i * stride];
         });
  }
}

/// Adds the columns to the large image.
template <class T>
void add_columns(const ConvolutionShapes& s, const std::vector<T>& columns, T* large) {
  for (std::int64_t ch = 0; ch < s.large_channels; ++ch) {
    const T* from = columns.data() + ch * s.windows.elements() * s.small.pixels();
    T* to = large + ch * s.large.pixels();
    meet(s.small, s.large, s.windows,
         [&](std::int64_t k, std::int64_t a, std::int64_t b, std::int64_t n, std::int64_t stride) {
           for (std::int64_t i = 0; i < n; ++i) to[b + i * stride] += from[k * s.small.pixels() + a + i];
         });
  }
}

/// A result without halo, brought to its place in one that has room for a halo.
template <class T, class Fill>
void into_own_part(const TensorView& image, Fill fill) {
  if (!image.held->haloed()) return fill(image);
  Held own = *image.held;
  std::int64_t n = 1;
  for (std::size_t d = 0; d < own.extents.size(); ++d) {
    if (own.inner[d].length != own.extents[d])
      own.global[d] = {{own.global[d].front().first + own.inner[d].first, own.inner[d].length}};
    own.extents[d] = own.inner[d].length;
    own.inner[d].first = 0;
    n *= own.extents[d];
  }
  own.flat = {0, n};
  std::vector<T> made(static_cast<std::size_t>(n));
  TensorView part = image;
  part.held = &own;
  part.data = reinterpret_cast<std::byte*>(made.data());
  fill(part);
  own_elements<2>({&part, &image}, [&](const auto& at) { image.as<T>()[at[1]] = nth(made, at[0]); });
}

/// small = weight * columns of large
template <class T>
void gather(const OperatorCall& c, const TensorView& large, const T* weight, const TensorView& small) {
  const ConvolutionShapes s(c, small, large);
  std::vector<T> columns;
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t g = 0; g < s.groups; ++g) {
      to_columns(s, large.as<T>() + s.large_at(b, g), columns);
      gemm<T>(s.small_channels, s.small.pixels(), s.rows(), 1, {weight + s.weight_at(g), s.rows()},
              {columns.data(), s.small.pixels()}, 0, small.as<T>() + s.small_at(b, g), s.small.pixels());
    }
}

/// large = columns of (weight^T * small)
template <class T>
void spread(const OperatorCall& c, const TensorView& small, const T* weight, const TensorView& large) {
  const ConvolutionShapes s(c, small, large);
  std::fill_n(large.as<T>(), large.elements(), T{0});
  std::vector<T> columns(static_cast<std::size_t>(s.rows() * s.small.pixels()));
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t g = 0; g < s.groups; ++g) {
      gemm<T>(s.rows(), s.small.pixels(), s.small_channels, 1, {weight + s.weight_at(g), s.rows(), true},
              {small.as<T>() + s.small_at(b, g), s.small.pixels()}, 0, columns.data(), s.small.pixels());
      add_columns(s, columns, large.as<T>() + s.large_at(b, g));
    }
}

/// x, weight, y
template <class T>
struct Convolution {
  static void run(const OperatorCall& c) {
    const TensorView& x = c.operand(0);
    const T* w = c.operand(1).as<T>();
    into_own_part<T>(c.operand(2),
                     [&](const TensorView& y) { transposed(c, x) ? spread(c, x, w, y) : gather(c, x, w, y); });
  }
};

/// dy, weight, dx
template <class T>
struct ConvolutionInput {
  static void run(const OperatorCall& c) {
    const TensorView& dy = c.operand(0);
    const T* w = c.operand(1).as<T>();
    into_own_part<T>(c.operand(2),
                     [&](const TensorView& dx) { transposed(c, dy) ? gather(c, dy, w, dx) : spread(c, dy, w, dx); });
  }
};

/// x, dy, weight gradient (added to). Of the two images the one that is made has no halo: every meeting counts on one
/// rank.
template <class T>
struct ConvolutionWeight {
  static void run(const OperatorCall& c) {
    const TensorView &x = c.operand(0), &dy = c.operand(1);
    const bool swapped = transposed(c, x);
    const TensorView &small = swapped ? x : dy, &large = swapped ? dy : x;
    const ConvolutionShapes s(c, small, large);
    std::vector<T> columns;
    for (std::int64_t b = 0; b < s.batch; ++b)
      for (std::int64_t g = 0; g < s.groups; ++g) {
        to_columns(s, large.as<T>() + s.large_at(b, g), columns);
        gemm<T>(s.small_channels, s.rows(), s.small.pixels(), 1, {small.as<T>() + s.small_at(b, g), s.small.pixels()},
                {columns.data(), s.small.pixels(), true}, 1, c.operand(2).as<T>() + s.weight_at(g), s.rows());
      }
  }
};

/// bias, image (added to)
template <class T>
struct Bias {
  static void run(const OperatorCall& c) {
    const TensorView& y = c.operand(1);
    own_rows<1>({&y}, [&](const Index& at, const auto& starts, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i) y.as<T>()[starts[0] + i] += c.operand(0).as<T>()[at[1]];
    });
  }
};

/// dy, bias gradient (added to)
template <class T>
struct ChannelSum {
  static void run(const OperatorCall& c) {
    const TensorView& dy = c.operand(0);
    std::vector<double> sums(static_cast<std::size_t>(dy.extent(1)), 0.0);
    own_rows<1>({&dy}, [&](const Index& at, const auto& starts, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i) nth(sums, at[1]) += static_cast<double>(dy.as<T>()[starts[0] + i]);
    });
    for (std::size_t ch = 0; ch < sums.size(); ++ch) c.operand(1).as<T>()[ch] += static_cast<T>(sums[ch]);
  }
};

[[maybe_unused]] const bool registered_convolution =
    cpu_operators().add({"convolution", "windows of an image times weights", {}, both<Convolution>()}) &&
    cpu_operators().add({"convolution_grad.input", "gradient of the image", {}, both<ConvolutionInput>()}) &&
    cpu_operators().add({"convolution_grad.weight", "gradient of the weights", {}, both<ConvolutionWeight>()}) &&
    cpu_operators().add({"add.bias", "a number per channel", {}, both<Bias>()}) &&
    cpu_operators().add({"add.channel_sum", "gradient of a number per channel", {}, both<ChannelSum>()});

}  // namespace

}  // namespace rehearse
