// Pools: maximum and mean over windows, mean over all pixels. Elements outside the image are left out, not zero. A
// maximum remembers where it was, as the pixel's number in the whole image, so that any tile can tell whether it has
// it.

#include <limits>
#include <utility>
#include <vector>

#include "core/base/index.hpp"
#include "gpu_backend/cpu/cpu_device.hpp"
#include "gpu_backend/cpu/ops/image.hpp"

namespace rehearse {

namespace {

/// A stretch of one side that a window reaches, `step` apart.
struct Span {
  std::int64_t begin, end;  ///< Stored elements of the large image.
  std::int64_t global;      ///< Elements of the whole image, whoever stores them.
};

/// The windows of a pool side by side: that of a small element is the product of its three spans. They are cut at the
/// image's edge, and at that of what is stored here.
class Pooling {
 public:
  Pooling(const OperatorCall& c, const TensorView& small_image, const TensorView& large_image)
      : small(small_image), large(large_image), windows_(c.task->scalars, small_image.rank() - 2) {
    for (std::size_t d = 0; d < 3; ++d)
      for (std::int64_t i = 0; i < small.length[d]; ++i) spans_[d].push_back(span(d, i));
  }
  const Sides small, large;

  /// Calls `f(i, window of the small element from + i)` for the first `n` elements of a row that `from` lies in.
  template <class F>
  void each_window(std::int64_t from, std::int64_t n, const F& f) const {
    const std::int64_t row = from / small.length[2], first = from % small.length[2];
    std::array<Span, 3> window{nth(spans_[0], row / small.length[1]), nth(spans_[1], row % small.length[1]), {}};
    for (std::int64_t i = 0; i < n; ++i) {
      window[2] = nth(spans_[2], first + i);
      f(i, window);
    }
  }
  /// Calls `f(large element)` for the stored ones of a window, in their order.
  template <class F>
  void each(const std::array<Span, 3>& window, const F& f) const {
    for (std::int64_t a = window[0].begin; a < window[0].end; a += windows_.dilation[0])
      for (std::int64_t b = window[1].begin; b < window[1].end; b += windows_.dilation[1]) {
        const std::int64_t row = (a * large.length[1] + b) * large.length[2];
        for (std::int64_t c = window[2].begin; c < window[2].end; c += windows_.dilation[2]) f(row + c);
      }
  }
  /// Number in the whole image of a stored large element.
  [[nodiscard]] std::int64_t global(std::int64_t element) const {
    const std::int64_t a = element / (large.length[1] * large.length[2]),
                       b = element / large.length[2] % large.length[1], c = element % large.length[2];
    return ((a + large.first[0]) * large.global[1] + b + large.first[1]) * large.global[2] + c + large.first[2];
  }

 private:
  [[nodiscard]] Span span(std::size_t d, std::int64_t i) const {
    const std::int64_t step = windows_.dilation[d],
                       first = (i + small.first[d]) * windows_.stride[d] - windows_.padding[d],
                       last = first + (windows_.kernel[d] - 1) * step;
    const auto cut = [&](std::int64_t from, std::int64_t to) {
      const std::int64_t begin = first >= from ? first : first + (from - first + step - 1) / step * step;
      return std::pair(begin, std::max(begin, std::min(to, last + 1)));
    };
    const auto [begin, end] = cut(0, large.global[d]);
    const auto [here, beyond] = cut(large.first[d], large.first[d] + large.length[d]);
    return {here - large.first[d], beyond - large.first[d], (end - begin + step - 1) / step};
  }
  Windows windows_;
  std::array<std::vector<Span>, 3> spans_;
};

/// Calls `f(image)` for every sample's every channel, which threads share; `pixels` each has.
template <class F>
void each_image(const TensorView& images, std::int64_t pixels, const F& f) {
  constexpr std::int64_t kLeastElements = 1 << 12;
  share(images.extent(0) * images.extent(1), 1 + kLeastElements / std::max<std::int64_t>(1, pixels),
        [&](std::int64_t from, std::int64_t to) {
          for (std::int64_t image = from; image < to; ++image) f(image);
        });
}

/// x, positions, y
template <class T>
struct MaxPool {
  static void run(const OperatorCall& c) {
    const TensorView &x = c.operand(0), &where = c.operand(1), &y = c.operand(2);
    const Pooling p(c, y, x);
    shared_rows<2>({&y, &where}, y.rank() - 1, [&](const Index&, const auto& starts, std::int64_t n) {
      const T* from = x.as<T>() + starts[0] / p.small.pixels() * p.large.pixels();
      T* to = y.as<T>() + starts[0];
      std::int64_t* positions = where.as<std::int64_t>() + starts[1];
      p.each_window(starts[0] % p.small.pixels(), n, [&](std::int64_t element, const std::array<Span, 3>& window) {
        T best = -std::numeric_limits<T>::infinity();
        std::int64_t position = -1;
        p.each(window, [&](std::int64_t at) {
          const bool larger = position < 0 || from[at] > best;
          best = larger ? from[at] : best;
          position = larger ? at : position;
        });
        to[element] = best;
        positions[element] = position < 0 ? position : p.global(position);
      });
    });
  }
};
/// dy, positions, dx
template <class T>
struct MaxPoolGrad {
  static void run(const OperatorCall& c) {
    const TensorView &dy = c.operand(0), &where = c.operand(1), &dx = c.operand(2);
    const Sides small(dy), large(dx);
    const bool whole = large.length == large.global;
    each_image(dy, large.pixels(), [&](std::int64_t image) {
      T* to = dx.as<T>() + image * large.pixels();
      std::fill_n(to, large.pixels(), T{0});
      for (std::int64_t e = image * small.pixels(); e < (image + 1) * small.pixels(); ++e) {
        const std::int64_t position = where.as<std::int64_t>()[e], local = whole ? position : stored(large, position);
        if (local >= 0) to[local] += dy.as<T>()[e];
      }
    });
  }

 private:
  /// Where an element of the whole image is stored, or -1.
  static std::int64_t stored(const Sides& large, std::int64_t position) {
    const std::array<std::int64_t, 3> at{position / (large.global[1] * large.global[2]),
                                         position / large.global[2] % large.global[1], position % large.global[2]};
    std::int64_t local = 0;
    for (std::size_t d = 0; d < 3; ++d) {
      if (position < 0 || at[d] < large.first[d] || at[d] >= large.first[d] + large.length[d]) return -1;
      local = local * large.length[d] + at[d] - large.first[d];
    }
    return local;
  }
};

/// x, y
template <class T>
struct AveragePool {
  static void run(const OperatorCall& c) {
    const TensorView &x = c.operand(0), &y = c.operand(1);
    const Pooling p(c, y, x);
    shared_rows<1>({&y}, y.rank() - 1, [&](const Index&, const auto& starts, std::int64_t n) {
      const T* from = x.as<T>() + starts[0] / p.small.pixels() * p.large.pixels();
      T* to = y.as<T>() + starts[0];
      p.each_window(starts[0] % p.small.pixels(), n, [&](std::int64_t element, const std::array<Span, 3>& window) {
        T sum{0};
        p.each(window, [&](std::int64_t at) { sum += from[at]; });
        to[element] = sum / static_cast<T>(elements(window));
      });
    });
  }
  /// Of a window, whoever stores them.
  static std::int64_t elements(const std::array<Span, 3>& window) {
    return window[0].global * window[1].global * window[2].global;
  }
};
/// dy, dx
template <class T>
struct AveragePoolGrad {
  static void run(const OperatorCall& c) {
    const TensorView &dy = c.operand(0), &dx = c.operand(1);
    const Pooling p(c, dy, dx);
    each_image(dy, p.large.pixels(), [&](std::int64_t image) {
      const T* from = dy.as<T>() + image * p.small.pixels();
      T* to = dx.as<T>() + image * p.large.pixels();
      std::fill_n(to, p.large.pixels(), T{0});
      for (std::int64_t row = 0; row < p.small.pixels(); row += p.small.length[2])
        p.each_window(row, p.small.length[2], [&](std::int64_t i, const std::array<Span, 3>& window) {
          const T part = from[row + i] / static_cast<T>(AveragePool<T>::elements(window));
          p.each(window, [&](std::int64_t at) { to[at] += part; });
        });
    });
  }
};

std::int64_t global_pixels(const TensorView& image) {
  const Sides s(image);
  return s.global[0] * s.global[1] * s.global[2];
}

/// image, features [batch, 1, channels]: this rank's part of the mean
template <class T>
struct GlobalPool {
  static void run(const OperatorCall& c) {
    const TensorView &x = c.operand(0), &y = c.operand(1);
    const T pixels = static_cast<T>(global_pixels(x));
    std::fill_n(y.as<T>(), y.elements(), T{0});
    own_rows<1>({&x}, [&](const Index& at, const auto& starts, std::int64_t n) {
      T sum{0};
      for (std::int64_t i = 0; i < n; ++i) sum += x.as<T>()[starts[0] + i];
      y.as<T>()[at[0] * x.extent(1) + at[1]] += sum / pixels;
    });
  }
};
/// dy [batch, 1, channels], dx
template <class T>
struct GlobalPoolGrad {
  static void run(const OperatorCall& c) {
    const TensorView &dy = c.operand(0), &dx = c.operand(1);
    const T pixels = static_cast<T>(global_pixels(dx));
    own_rows<1>({&dx}, [&](const Index& at, const auto& starts, std::int64_t n) {
      std::fill_n(dx.as<T>() + starts[0], n, dy.as<T>()[at[0] * dx.extent(1) + at[1]] / pixels);
    });
  }
};

[[maybe_unused]] const bool registered_pool =
    cpu_operators().add({"pool.max", "maximum over windows", {}, both<MaxPool>()}) &&
    cpu_operators().add({"pool.average", "mean over windows", {}, both<AveragePool>()}) &&
    cpu_operators().add({"pool.global", "mean over all pixels", {}, both<GlobalPool>()}) &&
    cpu_operators().add({"pool_grad.max", "to where the maximum was", {}, both<MaxPoolGrad>()}) &&
    cpu_operators().add({"pool_grad.average", "to all of a window", {}, both<AveragePoolGrad>()}) &&
    cpu_operators().add({"pool_grad.global", "to all pixels", {}, both<GlobalPoolGrad>()});

}  // namespace

}  // namespace rehearse
