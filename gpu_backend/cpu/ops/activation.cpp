// GELU (Hendrycks and Gimpel 2016), exact and by tanh, the squared ReLU (So et al. 2021) and the gated SiLU (Shazeer
// 2020).

#include <cmath>
#include <numbers>

#include "gpu_backend/cpu/cpu_device.hpp"
#include "gpu_backend/cpu/ops/curves.hpp"

namespace rehearse {

namespace {

struct Exact {
  template <class T>
  static T value(T x) {
    return x * T{0.5} * (T{1} + std::erf(x / std::numbers::sqrt2_v<T>));
  }
  template <class T>
  static T slope(T x) {
    const T density = std::exp(-x * x / T{2}) / std::sqrt(T{2} * std::numbers::pi_v<T>);
    return T{0.5} * (T{1} + std::erf(x / std::numbers::sqrt2_v<T>)) + x * density;
  }
};

struct ByTanh {
  template <class T>
  static constexpr T kInner = static_cast<T>(0.044715);
  template <class T>
  static T factor() {
    return std::sqrt(T{2} / std::numbers::pi_v<T>);
  }
  template <class T>
  static T value(T x) {
    return T{0.5} * x * (T{1} + std::tanh(factor<T>() * (x + kInner<T> * x * x * x)));
  }
  template <class T>
  static T slope(T x) {
    const T t = std::tanh(factor<T>() * (x + kInner<T> * x * x * x));
    return T{0.5} * (T{1} + t) + T{0.5} * x * (T{1} - t * t) * factor<T>() * (T{1} + T{3} * kInner<T> * x * x);
  }
};

struct Squared {
  template <class T>
  static T value(T x) {
    return x > T{0} ? x * x : T{0};
  }
  template <class T>
  static T slope(T x) {
    return x > T{0} ? T{2} * x : T{0};
  }
};

/// x, y
template <class T, class F>
struct Curve {
  static void run(const OperatorCall& c) {
    const T* x = c.operand(0).as<T>();
    T* y = c.operand(1).as<T>();
    for (std::int64_t i = 0; i < c.operand(0).elements(); ++i) y[i] = F::value(x[i]);
  }
};
/// dy, x, dx
template <class T, class F>
struct CurveGrad {
  static void run(const OperatorCall& c) {
    const T *dy = c.operand(0).as<T>(), *x = c.operand(1).as<T>();
    T* dx = c.operand(2).as<T>();
    for (std::int64_t i = 0; i < c.operand(1).elements(); ++i) dx[i] = dy[i] * F::slope(x[i]);
  }
};

/// gate, up, y
template <class T>
struct SiluMul {
  static void run(const OperatorCall& c) {
    const T *gate = c.operand(0).as<T>(), *up = c.operand(1).as<T>();
    T* y = c.operand(2).as<T>();
    for (std::int64_t i = 0; i < c.operand(0).elements(); ++i) y[i] = gate[i] * sigmoid(gate[i]) * up[i];
  }
};
/// dy, gate, d gate, up, d up
template <class T>
struct SiluMulGrad {
  static void run(const OperatorCall& c) {
    const T *dy = c.operand(0).as<T>(), *gate = c.operand(1).as<T>(), *up = c.operand(3).as<T>();
    T *dgate = c.operand(2).as<T>(), *dup = c.operand(4).as<T>();
    for (std::int64_t i = 0; i < c.operand(0).elements(); ++i) {
      const T s = sigmoid(gate[i]);
      dup[i] = dy[i] * gate[i] * s;
      dgate[i] = dy[i] * up[i] * s * (T{1} + gate[i] * (T{1} - s));
    }
  }
};

template <class T>
using GeluExact = Curve<T, Exact>;
template <class T>
using GeluTanh = Curve<T, ByTanh>;
template <class T>
using SquaredRelu = Curve<T, Squared>;
template <class T>
using GeluExactGrad = CurveGrad<T, Exact>;
template <class T>
using GeluTanhGrad = CurveGrad<T, ByTanh>;
template <class T>
using SquaredReluGrad = CurveGrad<T, Squared>;

[[maybe_unused]] const bool registered_activation =
    cpu_operators().add({"activation.gelu", "GELU", {}, both<GeluExact>()}) &&
    cpu_operators().add({"activation.gelu_tanh", "GELU by tanh", {}, both<GeluTanh>()}) &&
    cpu_operators().add({"activation.squared_relu", "square of the larger of x and 0", {}, both<SquaredRelu>()}) &&
    cpu_operators().add({"activation.silu_mul", "SiLU of the gate times up", {}, both<SiluMul>()}) &&
    cpu_operators().add({"activation_grad.gelu", "gradient of GELU", curve_gradient(), both<GeluExactGrad>()}) &&
    cpu_operators().add(
        {"activation_grad.gelu_tanh", "gradient of GELU by tanh", curve_gradient(), both<GeluTanhGrad>()}) &&
    cpu_operators().add({"activation_grad.squared_relu", "its gradient", curve_gradient(), both<SquaredReluGrad>()}) &&
    cpu_operators().add({"activation_grad.silu_mul", "gradients of gate and up", {}, both<SiluMulGrad>()});

}  // namespace

}  // namespace rehearse
