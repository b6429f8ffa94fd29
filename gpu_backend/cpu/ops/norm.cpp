// Layer norm (Ba et al. 2016) and RMS norm (Zhang and Sennrich 2019) over the last dimension. Backward makes the statistics again.

#include <cmath>

#include "gpu_backend/cpu/cpu_device.hpp"

namespace rehearse {

namespace {

template <class T>
struct Statistics { T mean, inverse; };

template <class T>
Statistics<T> statistics(const T* x, std::int64_t n, double epsilon, bool centred) {
  T mean{0}, square{0};
  if (centred) {
    for (std::int64_t i = 0; i < n; ++i) mean += x[i];
    mean /= static_cast<T>(n);
  }
  for (std::int64_t i = 0; i < n; ++i) square += (x[i] - mean) * (x[i] - mean);
  return {mean, T{1} / std::sqrt(square / static_cast<T>(n) + static_cast<T>(epsilon))};
}

std::int64_t width(const TensorView& x) { return x.extent(x.rank() - 1); }

/// x, weight, [bias], y
template <class T, bool kCentred>
struct Norm {
  static void run(const OperatorCall& c) {
    const TensorView &x = c.operand(0), &y = c.operands.back();
    const std::int64_t n = width(x);
    const T *w = c.operand(1).as<T>(), *bias = c.operands.size() > 3 ? c.operand(2).as<T>() : nullptr;
    for (std::int64_t r = 0; r < x.elements() / n; ++r) {
      const T* from = x.as<T>() + r * n;
      const auto s = statistics(from, n, c.task->epsilon, kCentred);
      for (std::int64_t i = 0; i < n; ++i) y.as<T>()[r * n + i] = (from[i] - s.mean) * s.inverse * w[i] + (bias != nullptr ? bias[i] : T{0});
    }
  }
};

/// x, dy, weight, dx; or, where the task accumulates: x, dy, weight gradient, [bias gradient].
template <class T, bool kCentred>
struct NormGrad {
  static void run(const OperatorCall& c) { c.task->accumulates ? weights(c) : input(c); }

  static void input(const OperatorCall& c) {
    const TensorView &x = c.operand(0), &dx = c.operand(3);
    const T *dy = c.operand(1).as<T>(), *w = c.operand(2).as<T>();
    const std::int64_t n = width(x);
    for (std::int64_t r = 0; r < x.elements() / n; ++r) {
      const T* from = x.as<T>() + r * n;
      const auto s = statistics(from, n, c.task->epsilon, kCentred);
      T mean{0}, along{0};
      for (std::int64_t i = 0; i < n; ++i) {
        const T g = dy[r * n + i] * w[i];
        mean += g;
        along += g * (from[i] - s.mean) * s.inverse;
      }
      mean = kCentred ? mean / static_cast<T>(n) : T{0};
      along /= static_cast<T>(n);
      for (std::int64_t i = 0; i < n; ++i)
        dx.as<T>()[r * n + i] = s.inverse * (dy[r * n + i] * w[i] - mean - (from[i] - s.mean) * s.inverse * along);
    }
  }

  static void weights(const OperatorCall& c) {
    const TensorView& x = c.operand(0);
    const T* dy = c.operand(1).as<T>();
    T *dw = c.operand(2).as<T>(), *db = c.operands.size() > 3 ? c.operand(3).as<T>() : nullptr;
    const std::int64_t n = width(x);
    for (std::int64_t r = 0; r < x.elements() / n; ++r) {
      const T* from = x.as<T>() + r * n;
      const auto s = statistics(from, n, c.task->epsilon, kCentred);
      for (std::int64_t i = 0; i < n; ++i) {
        dw[i] += dy[r * n + i] * (from[i] - s.mean) * s.inverse;
        if (db != nullptr) db[i] += dy[r * n + i];
      }
    }
  }
};

template <class T> using LayerNorm = Norm<T, true>;
template <class T> using RmsNorm = Norm<T, false>;
template <class T> using LayerNormGrad = NormGrad<T, true>;
template <class T> using RmsNormGrad = NormGrad<T, false>;

[[maybe_unused]] const bool registered = cpu_operators().add({"norm.layer_norm", "layer norm", {}, both<LayerNorm>()}) &&
                                         cpu_operators().add({"norm.rms_norm", "RMS norm", {}, both<RmsNorm>()}) &&
                                         cpu_operators().add({"norm_grad.layer_norm", "its gradients: of the input, or of the weights", {}, both<LayerNormGrad>()}) &&
                                         cpu_operators().add({"norm_grad.rms_norm", "its gradients: of the input, or of the weight", {}, both<RmsNormGrad>()});

}  // namespace

}  // namespace rehearse
