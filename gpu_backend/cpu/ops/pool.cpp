// Pools: maximum and mean over windows, mean over all pixels. Elements outside the image are left out, not zero. A
// maximum remembers where it was, as the pixel's number in the whole image, so that any tile can tell whether it has
// it.

#include <limits>

#include "gpu_backend/cpu/cpu_device.hpp"
#include "gpu_backend/cpu/ops/image.hpp"

namespace rehearse {

namespace {

/// One output element of a pool: its window in the large image, cut at the image's edge.
struct Window {
  std::array<std::int64_t, 3> begin, end, step;  ///< In global coordinates.

  Window(const Windows& w, const Sides& small, const Sides& large, std::int64_t pixel) : step(w.dilation) {
    std::array<std::int64_t, 3> at{pixel / (small.length[1] * small.length[2]),
                                   pixel / small.length[2] % small.length[1], pixel % small.length[2]};
    for (std::size_t d = 0; d < 3; ++d) {
      const std::int64_t first = (at[d] + small.first[d]) * w.stride[d] - w.padding[d],
                         last = first + (w.kernel[d] - 1) * step[d];
      begin[d] = first >= 0 ? first : first + (-first + step[d] - 1) / step[d] * step[d];
      end[d] = std::min(large.global[d], last + 1);
    }
  }
  /// Calls `f(global pixel, stored pixel or -1)` for every element of the image in it.
  template <class F>
  void each(const Sides& large, F f) const {
    const auto stored = [&](std::size_t d, std::int64_t x) {
      return x >= large.first[d] && x < large.first[d] + large.length[d];
    };
    for (std::int64_t a = begin[0]; a < end[0]; a += step[0]) {
      for (std::int64_t b = begin[1]; b < end[1]; b += step[1]) {
        const bool row_here = stored(0, a) && stored(1, b);
        const std::int64_t row = ((a - large.first[0]) * large.length[1] + b - large.first[1]) * large.length[2];
        const std::int64_t global = (a * large.global[1] + b) * large.global[2];
        for (std::int64_t c = begin[2]; c < end[2]; c += step[2])
          f(global + c, row_here && stored(2, c) ? row + c - large.first[2] : -1);
      }
    }
  }
  [[nodiscard]] std::int64_t elements() const {
    std::int64_t n = 1;
    for (std::size_t d = 0; d < 3; ++d) n *= begin[d] < end[d] ? (end[d] - begin[d] + step[d] - 1) / step[d] : 0;
    return n;
  }
};

/// Both images of a pool, and what joins them.
struct Pooling {
  Sides small, large;
  Windows windows;
  Pooling(const OperatorCall& c, const TensorView& small_image, const TensorView& large_image)
      : small(small_image), large(large_image), windows(c.task->scalars, small_image.rank() - 2) {}
  [[nodiscard]] Window window(std::int64_t pixel) const { return {windows, small, large, pixel}; }
};

/// Number of an element among the stored pixels of its channel.
std::int64_t pixel_of(std::int64_t element, const Sides& s) { return element % s.pixels(); }

/// x, positions, y
template <class T>
struct MaxPool {
  static void run(const OperatorCall& c) {
    const TensorView &x = c.operand(0), &where = c.operand(1), &y = c.operand(2);
    const Pooling p(c, y, x);
    own_elements<2>({&y, &where}, [&](const auto& at) {
      const T* image = x.as<T>() + at[0] / p.small.pixels() * p.large.pixels();
      T best = -std::numeric_limits<T>::infinity();
      std::int64_t position = -1;
      p.window(pixel_of(at[0], p.small)).each(p.large, [&](std::int64_t global, std::int64_t local) {
        if (local < 0 || (position >= 0 && !(image[local] > best))) return;
        best = image[local];
        position = global;
      });
      y.as<T>()[at[0]] = best;
      where.as<std::int64_t>()[at[1]] = position;
    });
  }
};
/// dy, positions, dx
template <class T>
struct MaxPoolGrad {
  static void run(const OperatorCall& c) {
    const TensorView &dy = c.operand(0), &where = c.operand(1), &dx = c.operand(2);
    const Sides small(dy), large(dx);
    std::fill_n(dx.as<T>(), dx.elements(), T{0});
    for (std::int64_t e = 0; e < dy.elements(); ++e) {
      const std::int64_t position = where.as<std::int64_t>()[e];
      const std::array<std::int64_t, 3> at{position / (large.global[1] * large.global[2]),
                                           position / large.global[2] % large.global[1], position % large.global[2]};
      bool here = position >= 0;
      std::int64_t local = 0;
      for (std::size_t d = 0; d < 3; ++d) {
        here = here && at[d] >= large.first[d] && at[d] < large.first[d] + large.length[d];
        local = local * large.length[d] + at[d] - large.first[d];
      }
      if (here) dx.as<T>()[e / small.pixels() * large.pixels() + local] += dy.as<T>()[e];
    }
  }
};

/// x, y
template <class T>
struct AveragePool {
  static void run(const OperatorCall& c) {
    const TensorView &x = c.operand(0), &y = c.operand(1);
    const Pooling p(c, y, x);
    own_elements<1>({&y}, [&](const auto& at) {
      const T* image = x.as<T>() + at[0] / p.small.pixels() * p.large.pixels();
      const Window w = p.window(pixel_of(at[0], p.small));
      T sum{0};
      w.each(p.large, [&](std::int64_t, std::int64_t local) { sum += local < 0 ? T{0} : image[local]; });
      y.as<T>()[at[0]] = sum / static_cast<T>(w.elements());
    });
  }
};
/// dy, dx
template <class T>
struct AveragePoolGrad {
  static void run(const OperatorCall& c) {
    const TensorView &dy = c.operand(0), &dx = c.operand(1);
    const Pooling p(c, dy, dx);
    std::fill_n(dx.as<T>(), dx.elements(), T{0});
    for (std::int64_t e = 0; e < dy.elements(); ++e) {
      T* image = dx.as<T>() + e / p.small.pixels() * p.large.pixels();
      const Window w = p.window(pixel_of(e, p.small));
      const T share = dy.as<T>()[e] / static_cast<T>(w.elements());
      w.each(p.large, [&](std::int64_t, std::int64_t local) {
        if (local >= 0) image[local] += share;
      });
    }
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
