// Layer norm (Ba et al. 2016) and RMS norm (Zhang and Sennrich 2019) over the last dimension, and RMS norm over equal
// runs of a token's features. Backward makes the statistics again.

#include <cmath>

#include "gpu_backend/cpu/cpu_device.hpp"

namespace rehearse {

namespace {

template <class T>
struct Statistics {
  T mean, inverse;
};

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

enum class Kind { layer, rms, grouped };

/// Rows of the norm: of x's last dimension, or runs as long as the task says. A token's runs each have their piece of
/// the weight.
struct Rows {
  std::int64_t count, width, runs;
  Rows(const OperatorCall& c, Kind kind, const TensorView& weight)
      : width(kind == Kind::grouped ? static_cast<std::int64_t>(c.task->scalars.at(0))
                                    : c.operand(0).extent(c.operand(0).rank() - 1)) {
    count = c.operand(0).elements() / width;
    runs = weight.elements() / width;
  }
  /// Where in the weight a row's begins.
  [[nodiscard]] std::int64_t weight(std::int64_t row) const { return row % runs * width; }
};

/// x, weight, [bias], y. Grouped: scalars: features of a run
template <class T, Kind kKind>
struct Norm {
  static void run(const OperatorCall& c) {
    const TensorView &x = c.operand(0), &y = c.operands.back();
    const Rows rows(c, kKind, c.operand(1));
    const std::int64_t n = rows.width;
    const T* bias = c.operands.size() > 3 ? c.operand(2).as<T>() : nullptr;
    for (std::int64_t r = 0; r < rows.count; ++r) {
      const T *w = c.operand(1).as<T>() + rows.weight(r), *from = x.as<T>() + r * n;
      const auto s = statistics(from, n, c.task->epsilon, kKind == Kind::layer);
      for (std::int64_t i = 0; i < n; ++i)
        y.as<T>()[r * n + i] = (from[i] - s.mean) * s.inverse * w[i] + (bias != nullptr ? bias[i] : T{0});
    }
  }
};

/// x, dy, weight, dx; or, where the task accumulates: x, dy, weight gradient, [bias gradient].
template <class T, Kind kKind>
struct NormGrad {
  static void run(const OperatorCall& c) { c.task->accumulates ? weights(c) : input(c); }

  static void input(const OperatorCall& c) {
    const TensorView &x = c.operand(0), &dx = c.operand(3);
    const T* dy = c.operand(1).as<T>();
    const Rows rows(c, kKind, c.operand(2));
    const std::int64_t n = rows.width;
    for (std::int64_t r = 0; r < rows.count; ++r) {
      const T *w = c.operand(2).as<T>() + rows.weight(r), *from = x.as<T>() + r * n;
      const auto s = statistics(from, n, c.task->epsilon, kKind == Kind::layer);
      T mean{0}, along{0};
      for (std::int64_t i = 0; i < n; ++i) {
        const T g = dy[r * n + i] * w[i];
        mean += g;
        along += g * (from[i] - s.mean) * s.inverse;
      }
      mean = kKind == Kind::layer ? mean / static_cast<T>(n) : T{0};
      along /= static_cast<T>(n);
      for (std::int64_t i = 0; i < n; ++i)
        dx.as<T>()[r * n + i] = s.inverse * (dy[r * n + i] * w[i] - mean - (from[i] - s.mean) * s.inverse * along);
    }
  }

  static void weights(const OperatorCall& c) {
    const TensorView& x = c.operand(0);
    const T* dy = c.operand(1).as<T>();
    T* db = c.operands.size() > 3 ? c.operand(3).as<T>() : nullptr;
    const Rows rows(c, kKind, c.operand(2));
    const std::int64_t n = rows.width;
    for (std::int64_t r = 0; r < rows.count; ++r) {
      const T* from = x.as<T>() + r * n;
      T* dw = c.operand(2).as<T>() + rows.weight(r);
      const auto s = statistics(from, n, c.task->epsilon, kKind == Kind::layer);
      for (std::int64_t i = 0; i < n; ++i) {
        dw[i] += dy[r * n + i] * (from[i] - s.mean) * s.inverse;
        if (db != nullptr) db[i] += dy[r * n + i];
      }
    }
  }
};

template <class T>
using LayerNorm = Norm<T, Kind::layer>;
template <class T>
using RmsNorm = Norm<T, Kind::rms>;
template <class T>
using GroupedRmsNorm = Norm<T, Kind::grouped>;
template <class T>
using LayerNormGrad = NormGrad<T, Kind::layer>;
template <class T>
using RmsNormGrad = NormGrad<T, Kind::rms>;
template <class T>
using GroupedRmsNormGrad = NormGrad<T, Kind::grouped>;

[[maybe_unused]] const bool registered_norm =
    cpu_operators().add({"norm.layer_norm", "layer norm", {}, both<LayerNorm>()}) &&
    cpu_operators().add({"norm.rms_norm", "RMS norm", {}, both<RmsNorm>()}) &&
    cpu_operators().add({"norm.grouped_rms_norm", "RMS norm of runs of features", {}, both<GroupedRmsNorm>()}) &&
    cpu_operators().add(
        {"norm_grad.layer_norm", "its gradients: of the input, or of the weights", {}, both<LayerNormGrad>()}) &&
    cpu_operators().add(
        {"norm_grad.rms_norm", "its gradients: of the input, or of the weight", {}, both<RmsNormGrad>()}) &&
    cpu_operators().add({"norm_grad.grouped_rms_norm",
                         "its gradients: of the input, or of the weight",
                         {},
                         both<GroupedRmsNormGrad>()});

}  // namespace

}  // namespace rehearse
