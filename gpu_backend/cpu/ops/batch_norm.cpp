// Batch norm (Ioffe and Szegedy 2015). Sums over the pixels of a rank are made by one operator, added up over the ranks
// of the statistics' scope by a collective, and used by another.

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/base/index.hpp"
#include "gpu_backend/cpu/cpu_device.hpp"
#include "gpu_backend/cpu/ops/image.hpp"

namespace rehearse {

namespace {

/// Elements per channel that the sums are over: whole images, of one replica or of all.
std::int64_t counted(const OperatorCall& c, const TensorView& image) {
  const Sides s(image);
  const std::int64_t batch = c.task->scope == "global" ? image.held->shape[0] : image.extent(0);
  return batch * s.global[0] * s.global[1] * s.global[2];
}

/// Mean and inverse deviation per channel, from sums of x and of x^2.
template <class T>
struct Moments {
  const T* sums;
  std::int64_t channels;
  T n, epsilon;
  Moments(const OperatorCall& c, const TensorView& image, const TensorView& saved)
      : sums(saved.as<T>()),
        channels(image.extent(1)),
        n(static_cast<T>(counted(c, image))),
        epsilon(static_cast<T>(c.task->epsilon)) {}
  [[nodiscard]] T mean(std::int64_t ch) const { return sums[ch] / n; }
  [[nodiscard]] T inverse(std::int64_t ch) const {
    const T m = mean(ch);
    return T{1} / std::sqrt(std::max(T{0}, sums[channels + ch] / n - m * m) + epsilon);
  }
};

/// Sums of both numbers of f(i), in several sums side by side, as registers hold them.
template <class F>
std::pair<double, double> two_sums(std::int64_t n, const F& f) {
  constexpr std::int64_t kSums = 8;
  double a[kSums] = {}, b[kSums] = {};
  std::int64_t i = 0;
  for (; i + kSums <= n; i += kSums)
    for (std::int64_t l = 0; l < kSums; ++l) {
      const auto [x, y] = f(i + l);
      a[l] += x;
      b[l] += y;
    }
  std::pair<double, double> out{0, 0};
  for (; i < n; ++i) {
    const auto [x, y] = f(i);
    out.first += x;
    out.second += y;
  }
  for (std::int64_t l = 0; l < kSums; ++l) {
    out.first += a[l];
    out.second += b[l];
  }
  return out;
}

/// x, sums [2 channels]: of x, and of x^2
template <class T>
struct BatchNormSums {
  static void run(const OperatorCall& c) {
    const TensorView& x = c.operand(0);
    std::vector<double> sums(static_cast<std::size_t>(c.operand(1).elements()), 0.0);
    shared_channels<1>({&x}, [&](const Index& at, const auto& starts, std::int64_t n) {
      const T* row = x.as<T>() + starts[0];
      const auto [sum, squares] = two_sums(n, [row](std::int64_t i) {
        const auto v = static_cast<double>(row[i]);
        return std::pair(v, v * v);
      });
      nth(sums, at[1]) += sum;
      nth(sums, x.extent(1) + at[1]) += squares;
    });
    std::copy(sums.begin(), sums.end(), c.operand(1).as<T>());
  }
};

/// x, sums, weight, bias, y
template <class T>
struct BatchNormNormalise {
  static void run(const OperatorCall& c) {
    const TensorView &x = c.operand(0), &y = c.operand(4);
    const Moments<T> m(c, x, c.operand(1));
    shared_rows<2>({&x, &y}, [&](const Index& at, const auto& starts, std::int64_t n) {
      const T factor = m.inverse(at[1]) * c.operand(2).as<T>()[at[1]],
              shift = c.operand(3).as<T>()[at[1]] - m.mean(at[1]) * factor;
      for (std::int64_t i = 0; i < n; ++i) y.as<T>()[starts[1] + i] = x.as<T>()[starts[0] + i] * factor + shift;
    });
  }
};

/// x, dy, sums, gradient sums [2 channels], and where they are wanted weight gradient and bias gradient (added to).
/// Gradient sums: of dy, and of dy times x as normalised, which are this rank's terms of the gradients of bias and
/// weight.
template <class T>
struct GradientSums {
  static void run(const OperatorCall& c) {
    const TensorView &x = c.operand(0), &dy = c.operand(1);
    const Moments<T> m(c, x, c.operand(2));
    std::vector<double> sums(static_cast<std::size_t>(c.operand(3).elements()), 0.0);
    const auto at_channel = [](std::int64_t ch) { return static_cast<std::size_t>(ch); };
    shared_channels<2>({&x, &dy}, [&](const Index& at, const auto& starts, std::int64_t n) {
      const T mean = m.mean(at[1]), inverse = m.inverse(at[1]), *gradients = dy.as<T>() + starts[1],
              *values = x.as<T>() + starts[0];
      const auto [sum, along] = two_sums(n, [=](std::int64_t i) {
        const T g = gradients[i];
        return std::pair(static_cast<double>(g), static_cast<double>(g * (values[i] - mean) * inverse));
      });
      sums[at_channel(at[1])] += sum;
      sums[at_channel(m.channels + at[1])] += along;
    });
    std::copy(sums.begin(), sums.end(), c.operand(3).as<T>());
    if (c.operands.size() < 6) return;
    for (std::int64_t ch = 0; ch < m.channels; ++ch) {
      c.operand(4).as<T>()[ch] += static_cast<T>(sums[at_channel(m.channels + ch)]);
      c.operand(5).as<T>()[ch] += static_cast<T>(sums[at_channel(ch)]);
    }
  }
};

/// x, dy, sums, gradient sums, weight, dx
template <class T>
struct Gradient {
  static void run(const OperatorCall& c) {
    const TensorView &x = c.operand(0), &dy = c.operand(1), &dx = c.operand(5);
    const Moments<T> m(c, x, c.operand(2));
    const T *sums = c.operand(3).as<T>(), *weight = c.operand(4).as<T>();
    shared_rows<3>({&x, &dy, &dx}, [&](const Index& at, const auto& starts, std::int64_t n) {
      const T mean = m.mean(at[1]), inverse = m.inverse(at[1]), even = sums[at[1]] / m.n,
              along = sums[m.channels + at[1]] / m.n;
      for (std::int64_t i = 0; i < n; ++i)
        dx.as<T>()[starts[2] + i] =
            weight[at[1]] * inverse *
            (dy.as<T>()[starts[1] + i] - even - (x.as<T>()[starts[0] + i] - mean) * inverse * along);
    });
  }
};

[[maybe_unused]] const bool registered_batch_norm =
    cpu_operators().add({"statistics.forward", "sums of x and its square per channel", {}, both<BatchNormSums>()}) &&
    cpu_operators().add({"statistics.backward", "sums of the gradient per channel", {}, both<GradientSums>()}) &&
    cpu_operators().add({"norm.batch_norm", "mean 0 and variance 1 per channel", {}, both<BatchNormNormalise>()}) &&
    cpu_operators().add({"norm_grad.batch_norm", "gradient of the image", {}, both<Gradient>()});

}  // namespace

}  // namespace rehearse
