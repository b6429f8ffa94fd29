// Convolutions as products: the large image's windows become columns (Chellapilla et al. 2006), one per element of the
// small one. A transposed convolution has its sides swapped. Weights are [small channels, large channels of a group,
// window]. Over tiles the images come with the halos that their windows need. In fp32, windows of 3 x 3 that lie side
// by side are multiplied in fewer steps where that pays (winograd.hpp).

#include <algorithm>
#include <optional>
#include <type_traits>

#include "core/base/index.hpp"
#include "gpu_backend/cpu/blas.hpp"
#include "gpu_backend/cpu/cpu_device.hpp"
#include "gpu_backend/cpu/ops/image.hpp"
#include "gpu_backend/cpu/team.hpp"
#include "gpu_backend/cpu/winograd.hpp"
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
  /// Samples whose columns stand side by side: products of few pixels would read the weights for little.
  [[nodiscard]] std::int64_t at_once() const {
    constexpr std::int64_t kEnoughColumns = 512;
    return std::clamp<std::int64_t>(kEnoughColumns / std::max<std::int64_t>(1, small.pixels()), 1,
                                    std::max<std::int64_t>(1, batch));
  }
  [[nodiscard]] std::int64_t small_at(std::int64_t sample, std::int64_t group) const {
    return (sample * groups + group) * small_channels * small.pixels();
  }
  [[nodiscard]] std::int64_t large_at(std::int64_t sample, std::int64_t group) const {
    return (sample * groups + group) * large_channels * large.pixels();
  }
  [[nodiscard]] std::int64_t weight_at(std::int64_t group) const { return group * small_channels * rows(); }
};

/// The convolution as one over tiles, where its windows allow it and it pays: from large to small, or back.
template <class T>
std::optional<TileImages> tiles_of(const ConvolutionShapes& s, bool back) {
  if (!std::is_same_v<T, float> || s.groups != 1 || s.windows.kernel != std::array<std::int64_t, 3>{1, 3, 3} ||
      s.windows.stride != std::array<std::int64_t, 3>{1, 1, 1} || s.windows.dilation[1] != 1 ||
      s.windows.dilation[2] != 1 || s.small.length[0] != 1 || s.large.length[0] != 1)
    return std::nullopt;
  const auto first = [&](std::size_t side) { return meeting(s.small, s.large, s.windows, side, 0).offset; };
  const TileImages::Image small{s.small_channels, s.small.length[1], s.small.length[2]},
      large{s.large_channels, s.large.length[1], s.large.length[2]};
  const TileImages out = back ? TileImages{s.batch, small, large, -first(1) - 2, -first(2) - 2}
                              : TileImages{s.batch, large, small, first(1), first(2)};
  return tiles_pay(out) ? std::optional(out) : std::nullopt;
}

constexpr std::int64_t kLeastMoved = 1 << 13;  // Worth another thread.

/// Columns [channels * window, samples * small pixels] of a group's large images; what lies outside them is zero.
template <class T>
class WindowColumns {
 public:
  WindowColumns(const ConvolutionShapes& s, std::int64_t samples)
      : s_(s), wide_(samples * s.small.pixels()), values_(scratch(static_cast<std::size_t>(s.rows() * wide_))) {}
  [[nodiscard]] T* data() { return values_; }
  [[nodiscard]] std::int64_t wide() const { return wide_; }

  /// `large(sample)` is where a sample's channels of this group begin.
  template <class Large>
  void take(std::int64_t samples, const Large& large) {
    each_channel(samples, [&](std::int64_t ch, std::int64_t sample) {
      const T* from = large(sample) + ch * s_.large.pixels();
      T* to = values_ + ch * s_.windows.elements() * wide_ + sample * s_.small.pixels();
      clear_outside(to);
      meet(s_.small, s_.large, s_.windows,
           [&](std::int64_t k, std::int64_t a, std::int64_t b, std::int64_t n, std::int64_t stride) {
             if (stride == 1)
               std::copy_n(from + b, n, to + k * wide_ + a);
             else
               for (std::int64_t i = 0; i < n; ++i) to[k * wide_ + a + i] = from[b + i * stride];
           });
    });
  }

  /// Adds them to the large images.
  template <class Large>
  void add_to(std::int64_t samples, const Large& large) {
    each_channel(samples, [&](std::int64_t ch, std::int64_t sample) {
      const T* from = values_ + ch * s_.windows.elements() * wide_ + sample * s_.small.pixels();
      T* to = large(sample) + ch * s_.large.pixels();
      meet(s_.small, s_.large, s_.windows,
           [&](std::int64_t k, std::int64_t a, std::int64_t b, std::int64_t n, std::int64_t stride) {
             if (stride == 1)
               for (std::int64_t i = 0; i < n; ++i) to[b + i] += from[k * wide_ + a + i];
             else
               for (std::int64_t i = 0; i < n; ++i) to[b + i * stride] += from[k * wide_ + a + i];
           });
    });
  }

 private:
  template <class F>
  void each_channel(std::int64_t samples, const F& f) {
    const std::int64_t of_channel = samples * s_.windows.elements() * s_.small.pixels();
    share(s_.large_channels, 1 + kLeastMoved / std::max<std::int64_t>(1, of_channel),
          [&](std::int64_t first, std::int64_t last) {
            for (std::int64_t ch = first; ch < last; ++ch)
              for (std::int64_t sample = 0; sample < samples; ++sample) f(ch, sample);
          });
  }

  /// Zeros where a channel's windows meet nothing.
  void clear_outside(T* of_channel) const {
    const std::array<std::int64_t, 3>& n = s_.small.length;
    std::int64_t k = 0;
    for (std::int64_t k0 = 0; k0 < s_.windows.kernel[0]; ++k0) {
      for (std::int64_t k1 = 0; k1 < s_.windows.kernel[1]; ++k1) {
        for (std::int64_t k2 = 0; k2 < s_.windows.kernel[2]; ++k2, ++k) {
          const Meeting a = meeting(s_.small, s_.large, s_.windows, 0, k0),
                        b = meeting(s_.small, s_.large, s_.windows, 1, k1),
                        c = meeting(s_.small, s_.large, s_.windows, 2, k2);
          T* row = of_channel + k * wide_;
          for (std::int64_t x = 0; x < n[0]; ++x) {
            for (std::int64_t y = 0; y < n[1]; ++y, row += n[2]) {
              const bool met = x >= a.begin && x < a.end && y >= b.begin && y < b.end && c.begin < c.end;
              std::fill(row, row + (met ? c.begin : n[2]), T{0});
              if (met) std::fill(row + c.end, row + n[2], T{0});
            }
          }
        }
      }
    }
  }
  /// A thread's own, kept from one convolution to the next: fresh pages would be cleared for each.
  static T* scratch(std::size_t elements) {
    static thread_local std::vector<T> kept;
    if (kept.size() < elements) kept.resize(elements);
    return kept.data();
  }

  const ConvolutionShapes& s_;
  std::int64_t wide_;
  T* values_;
};

/// Calls f(first sample, samples, group) for all samples, so many at once that their columns are enough.
template <class F>
void side_by_side(const ConvolutionShapes& s, const F& f) {
  const std::int64_t at_once = s.at_once();
  for (std::int64_t b = 0; b < s.batch; b += at_once)
    for (std::int64_t g = 0; g < s.groups; ++g) f(b, std::min(at_once, s.batch - b), g);
}

/// The small images of several samples as one matrix [channels, samples * pixels], and back.
template <class T, bool kBack>
void join_samples(const ConvolutionShapes& s, T* image, std::int64_t sample, std::int64_t samples, std::int64_t group,
                  T* joined, std::int64_t wide) {
  const std::int64_t pixels = s.small.pixels();
  for (std::int64_t b = 0; b < samples; ++b)
    for (std::int64_t ch = 0; ch < s.small_channels; ++ch) {
      T *of_image = image + s.small_at(sample + b, group) + ch * pixels, *of_joined = joined + ch * wide + b * pixels;
      kBack ? std::copy_n(of_joined, pixels, of_image) : std::copy_n(of_image, pixels, of_joined);
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
  if (const auto tiles = tiles_of<T>(s, false))
    return convolve_tiles(*tiles, large.as<float>(), reinterpret_cast<const float*>(weight), small.as<float>());
  WindowColumns<T> columns(s, s.at_once());
  std::vector<T> joined(static_cast<std::size_t>(s.at_once() > 1 ? s.small_channels * columns.wide() : 0));
  side_by_side(s, [&](std::int64_t b, std::int64_t samples, std::int64_t g) {
    columns.take(samples, [&](std::int64_t i) { return large.as<T>() + s.large_at(b + i, g); });
    T* out = joined.empty() ? small.as<T>() + s.small_at(b, g) : joined.data();
    gemm<T>(s.small_channels, samples * s.small.pixels(), s.rows(), 1, {weight + s.weight_at(g), s.rows()},
            {columns.data(), columns.wide()}, 0, out, columns.wide());
    if (!joined.empty()) join_samples<T, true>(s, small.as<T>(), b, samples, g, joined.data(), columns.wide());
  });
}

/// large = columns of (weight^T * small)
template <class T>
void spread(const OperatorCall& c, const TensorView& small, const T* weight, const TensorView& large) {
  const ConvolutionShapes s(c, small, large);
  if (const auto tiles = tiles_of<T>(s, true))
    return convolve_tiles_back(*tiles, small.as<float>(), reinterpret_cast<const float*>(weight), large.as<float>());
  std::fill_n(large.as<T>(), large.elements(), T{0});
  WindowColumns<T> columns(s, s.at_once());
  std::vector<T> joined(static_cast<std::size_t>(s.at_once() > 1 ? s.small_channels * columns.wide() : 0));
  side_by_side(s, [&](std::int64_t b, std::int64_t samples, std::int64_t g) {
    if (!joined.empty()) join_samples<T, false>(s, small.as<T>(), b, samples, g, joined.data(), columns.wide());
    const T* from = joined.empty() ? small.as<T>() + s.small_at(b, g) : joined.data();
    gemm<T>(s.rows(), samples * s.small.pixels(), s.small_channels, 1, {weight + s.weight_at(g), s.rows(), true},
            {from, columns.wide()}, 0, columns.data(), columns.wide());
    columns.add_to(samples, [&](std::int64_t i) { return large.as<T>() + s.large_at(b + i, g); });
  });
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
    if (const auto tiles = tiles_of<T>(s, false))
      return tiles_weight_gradient(*tiles, large.as<float>(), small.as<float>(), c.operand(2).as<float>());
    WindowColumns<T> columns(s, s.at_once());
    std::vector<T> joined(static_cast<std::size_t>(s.at_once() > 1 ? s.small_channels * columns.wide() : 0));
    side_by_side(s, [&](std::int64_t b, std::int64_t samples, std::int64_t g) {
      columns.take(samples, [&](std::int64_t i) { return large.as<T>() + s.large_at(b + i, g); });
      if (!joined.empty()) join_samples<T, false>(s, small.as<T>(), b, samples, g, joined.data(), columns.wide());
      const T* from = joined.empty() ? small.as<T>() + s.small_at(b, g) : joined.data();
      gemm<T>(s.small_channels, s.rows(), samples * s.small.pixels(), 1, {from, columns.wide()},
              {columns.data(), columns.wide(), true}, 1, c.operand(2).as<T>() + s.weight_at(g), s.rows());
    });
  }
};

/// bias, image (added to)
template <class T>
struct Bias {
  static void run(const OperatorCall& c) {
    const TensorView& y = c.operand(1);
    shared_rows<1>({&y}, [&](const Index& at, const auto& starts, std::int64_t n) {
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
    shared_channels<1>({&dy}, [&](const Index& at, const auto& starts, std::int64_t n) {
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
