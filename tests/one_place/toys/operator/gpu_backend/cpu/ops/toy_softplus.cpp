// Softplus, log(1 + exp x), and its gradient.

#include <cmath>

#include "gpu_backend/cpu/cpu_device.hpp"

namespace rehearse {

namespace {

/// x, y
template <class T>
struct ToySoftplus {
  static void run(const OperatorCall& c) {
    const T* x = c.operand(0).as<T>();
    T* y = c.operand(1).as<T>();
    for (std::int64_t i = 0; i < c.operand(0).elements(); ++i) y[i] = std::log1p(std::exp(x[i]));
  }
};
/// dy, x, dx
template <class T>
struct ToySoftplusGrad {
  static void run(const OperatorCall& c) {
    const T *dy = c.operand(0).as<T>(), *x = c.operand(1).as<T>();
    T* dx = c.operand(2).as<T>();
    for (std::int64_t i = 0; i < c.operand(1).elements(); ++i) dx[i] = dy[i] / (T{1} + std::exp(-x[i]));
  }
};

[[maybe_unused]] const bool registered_toy_softplus =
    cpu_operators().add({"activation.toy_softplus", "log(1 + exp x)", {}, both<ToySoftplus>()}) &&
    cpu_operators().add({"activation_grad.toy_softplus", "its gradient", curve_gradient(), both<ToySoftplusGrad>()});

}  // namespace

}  // namespace rehearse
