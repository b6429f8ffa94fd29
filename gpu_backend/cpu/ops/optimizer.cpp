// Gradient norm, clipping and updates: SGD with momentum, Adam (Kingma and Ba 2015), AdamW (Loshchilov and Hutter
// 2019).

#include <cmath>

#include "gpu_backend/cpu/cpu_device.hpp"
#include "gpu_backend/cpu/team.hpp"

namespace rehearse {

namespace {

constexpr std::int64_t kLeastUpdated = 1 << 14;  // Worth another thread.

/// In several sums side by side, as registers hold them.
template <class T>
T square_sum(const T* g, std::int64_t n) {
  constexpr std::int64_t kSums = 16;
  T sums[kSums] = {}, out{0};
  std::int64_t j = 0;
  for (; j + kSums <= n; j += kSums)
    for (std::int64_t l = 0; l < kSums; ++l) sums[l] += g[j + l] * g[j + l];
  for (; j < n; ++j) out += g[j] * g[j];
  for (const T s : sums) out += s;
  return out;
}

/// gradients..., sum of squares; offsets: per gradient, whether this rank counts it
template <class T>
struct SquareSum {
  static void run(const OperatorCall& c) {
    T sum{0};
    for (std::size_t i = 0; i + 1 < c.operands.size(); ++i) {
      if (c.offsets.at(i) == 0) continue;
      sum += square_sum(c.operand(i).as<T>(), c.operand(i).elements());
    }
    c.operands.back().as<T>()[0] = sum;
  }
};
/// gradients (scaled), sum of squares; scalars: largest norm
template <class T>
struct Clip {
  static void run(const OperatorCall& c) {
    c.observed->norm_squared = static_cast<double>(c.operands.back().as<T>()[0]);
    const double factor = std::min(1.0, c.task->scalars.at(0) / (std::sqrt(c.observed->norm_squared) + 1e-6));
    if (factor == 1.0) return;
    for (std::size_t i = 0; i + 1 < c.operands.size(); ++i) {
      T* g = c.operand(i).as<T>();
      share(c.operand(i).elements(), kLeastUpdated, [g, factor](std::int64_t first, std::int64_t last) {
        for (std::int64_t j = first; j < last; ++j) g[j] *= static_cast<T>(factor);
      });
    }
  }
};

double decay_of(const OperatorCall& c, const TensorView& weights) {
  return weights.held->shape.size() >= 2 ? c.task->scalars.at(1) : 0.0;
}

/// Per parameter: gradient, weights, momentum. scalars: learning rate, weight decay, momentum
template <class T>
struct Sgd {
  static void run(const OperatorCall& c) {
    const T rate = static_cast<T>(c.task->scalars.at(0)), keep = static_cast<T>(c.task->scalars.at(2));
    for (std::size_t i = 0; i + 2 < c.operands.size(); i += 3) {
      const T *g = c.operand(i).as<T>(), decay = static_cast<T>(decay_of(c, c.operand(i + 1)));
      T *w = c.operand(i + 1).as<T>(), *m = c.operand(i + 2).as<T>();
      share(c.operand(i).elements(), kLeastUpdated, [=](std::int64_t first, std::int64_t last) {
        for (std::int64_t j = first; j < last; ++j) {
          m[j] = keep * m[j] + g[j] + decay * w[j];
          w[j] -= rate * m[j];
        }
      });
    }
  }
};

/// Per parameter: gradient, weights, first and second moment. scalars: learning rate, weight decay, beta 1, beta 2,
/// epsilon
template <class T, bool kDecoupled>
struct AdamLike {
  static void run(const OperatorCall& c) {
    const auto& s = c.task->scalars;
    const auto t = static_cast<double>(c.step + 1);
    const T b1 = static_cast<T>(s.at(2)), b2 = static_cast<T>(s.at(3)), epsilon = static_cast<T>(s.at(4)),
            rate = static_cast<T>(s.at(0));
    const T correct1 = static_cast<T>(1 - std::pow(s.at(2), t)), correct2 = static_cast<T>(1 - std::pow(s.at(3), t));
    for (std::size_t i = 0; i + 3 < c.operands.size(); i += 4) {
      const T *grad = c.operand(i).as<T>(), decay = static_cast<T>(decay_of(c, c.operand(i + 1)));
      T *w = c.operand(i + 1).as<T>(), *m = c.operand(i + 2).as<T>(), *v = c.operand(i + 3).as<T>();
      share(c.operand(i).elements(), kLeastUpdated, [=](std::int64_t first, std::int64_t last) {
        for (std::int64_t j = first; j < last; ++j) {
          const T g = kDecoupled ? grad[j] : grad[j] + decay * w[j];
          m[j] = b1 * m[j] + (T{1} - b1) * g;
          v[j] = b2 * v[j] + (T{1} - b2) * g * g;
          if (kDecoupled) w[j] -= rate * decay * w[j];
          w[j] -= rate * (m[j] / correct1) / (std::sqrt(v[j] / correct2) + epsilon);
        }
      });
    }
  }
};
template <class T>
using Adam = AdamLike<T, false>;
template <class T>
using AdamW = AdamLike<T, true>;

[[maybe_unused]] const bool registered_optimizer =
    cpu_operators().add({"square_sum.l2", "sum of squares of what this rank counts", {}, both<SquareSum>()}) &&
    cpu_operators().add({"scale.clip", "gradients by the norm", {}, both<Clip>()}) &&
    cpu_operators().add({"optimizer.sgd", "SGD with momentum", {}, both<Sgd>()}) &&
    cpu_operators().add({"optimizer.adam", "Adam", {}, both<Adam>()}) &&
    cpu_operators().add({"optimizer.adamw", "AdamW", {}, both<AdamW>()});

}  // namespace

}  // namespace rehearse
