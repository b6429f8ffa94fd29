// The activations of experts, times the weight of the row: gated by SiLU, as GPT-OSS gates, and squared ReLU (So et al.
// 2021).

#include <algorithm>
#include <cmath>

#include "gpu_backend/cpu/ops/curves.hpp"
#include "gpu_backend/cpu/ops/expert_rows.hpp"

namespace rehearse {

namespace {

/// gate [n, f], up [n, f], weights [n], y
template <class T>
struct WeightedSiluMul {
  static void run(const OperatorCall& c) {
    const TensorView& gate = c.operand(0);
    const std::int64_t f = row_width(gate);
    for (std::int64_t i = 0; i < gate.elements(); ++i) {
      const T g = gate.as<T>()[i];
      c.operand(3).as<T>()[i] = c.operand(2).as<T>()[i / f] * g * sigmoid(g) * c.operand(1).as<T>()[i];
    }
  }
};
/// dy, gate, up, weights, their gradients
template <class T>
struct WeightedSiluMulGrad {
  static void run(const OperatorCall& c) {
    const TensorView& gate = c.operand(1);
    const std::int64_t f = row_width(gate);
    std::fill_n(c.operand(6).as<T>(), c.operand(6).elements(), T{0});
    for (std::int64_t i = 0; i < gate.elements(); ++i) {
      const T g = gate.as<T>()[i], s = sigmoid(g), up = c.operand(2).as<T>()[i], w = c.operand(3).as<T>()[i / f],
              dy = c.operand(0).as<T>()[i];
      c.operand(4).as<T>()[i] = dy * w * up * s * (T{1} + g * (T{1} - s));
      c.operand(5).as<T>()[i] = dy * w * g * s;
      c.operand(6).as<T>()[i / f] += dy * g * s * up;
    }
  }
};

/// GPT-OSS's gated activation: gate at most c, up within c either way (arXiv 2508.10925).
template <class T>
struct ClampedGate {
  static constexpr T kSlope = static_cast<T>(1.702);
  T gate, up, sigma;  ///< `up` with the 1 that is added to it.
  bool gate_moves, up_moves;
  ClampedGate(T g, T u, T limit)
      : gate(std::min(g, limit)),
        up(std::clamp(u, -limit, limit) + T{1}),
        sigma(sigmoid(kSlope * gate)),
        gate_moves(g <= limit),
        up_moves(u >= -limit && u <= limit) {}
  [[nodiscard]] T value() const { return gate * sigma * up; }
  [[nodiscard]] T by_gate() const { return gate_moves ? up * sigma * (T{1} + kSlope * gate * (T{1} - sigma)) : T{0}; }
  [[nodiscard]] T by_up() const { return up_moves ? gate * sigma : T{0}; }
};

/// gate [n, f], up [n, f], weights [n], y
template <class T>
struct WeightedClamped {
  static void run(const OperatorCall& c) {
    const TensorView& gate = c.operand(0);
    const std::int64_t f = row_width(gate);
    for (std::int64_t i = 0; i < gate.elements(); ++i)
      c.operand(3).as<T>()[i] =
          c.operand(2).as<T>()[i / f] *
          ClampedGate<T>(gate.as<T>()[i], c.operand(1).as<T>()[i], static_cast<T>(c.task->scalars.at(0))).value();
  }
};
/// dy, gate, up, weights, their gradients
template <class T>
struct WeightedClampedGrad {
  static void run(const OperatorCall& c) {
    const TensorView& gate = c.operand(1);
    const std::int64_t f = row_width(gate);
    std::fill_n(c.operand(6).as<T>(), c.operand(6).elements(), T{0});
    for (std::int64_t i = 0; i < gate.elements(); ++i) {
      const ClampedGate<T> y(gate.as<T>()[i], c.operand(2).as<T>()[i], static_cast<T>(c.task->scalars.at(0)));
      const T dy = c.operand(0).as<T>()[i], w = c.operand(3).as<T>()[i / f];
      c.operand(4).as<T>()[i] = dy * w * y.by_gate();
      c.operand(5).as<T>()[i] = dy * w * y.by_up();
      c.operand(6).as<T>()[i / f] += dy * y.value();
    }
  }
};

/// x [n, f], weights [n], y
template <class T>
struct WeightedSquaredRelu {
  static void run(const OperatorCall& c) {
    const TensorView& x = c.operand(0);
    const std::int64_t f = row_width(x);
    for (std::int64_t i = 0; i < x.elements(); ++i) {
      const T above = std::max(x.as<T>()[i], T{0});
      c.operand(2).as<T>()[i] = c.operand(1).as<T>()[i / f] * above * above;
    }
  }
};
/// dy, x, weights, their gradients
template <class T>
struct WeightedSquaredReluGrad {
  static void run(const OperatorCall& c) {
    const TensorView& x = c.operand(1);
    const std::int64_t f = row_width(x);
    std::fill_n(c.operand(4).as<T>(), c.operand(4).elements(), T{0});
    for (std::int64_t i = 0; i < x.elements(); ++i) {
      const T above = std::max(x.as<T>()[i], T{0}), dy = c.operand(0).as<T>()[i];
      c.operand(3).as<T>()[i] = dy * c.operand(2).as<T>()[i / f] * T{2} * above;
      c.operand(4).as<T>()[i / f] += dy * above * above;
    }
  }
};

[[maybe_unused]] const bool registered_expert_activation =
    cpu_operators().add({"activation.weighted_silu_mul",
                         "SiLU of the gate times up, by the row's weight",
                         {},
                         both<WeightedSiluMul>()}) &&
    cpu_operators().add(
        {"activation_grad.weighted_silu_mul", "gradients of gate, up and weight", {}, both<WeightedSiluMulGrad>()}) &&
    cpu_operators().add({"activation.weighted_clamped_silu_mul",
                         "GPT-OSS's gated activation, by the row's weight",
                         {},
                         both<WeightedClamped>()}) &&
    cpu_operators().add({"activation_grad.weighted_clamped_silu_mul",
                         "gradients of gate, up and weight",
                         {},
                         both<WeightedClampedGrad>()}) &&
    cpu_operators().add({"activation.weighted_squared_relu",
                         "square of the larger of x and 0, by the row's weight",
                         {},
                         both<WeightedSquaredRelu>()}) &&
    cpu_operators().add(
        {"activation_grad.weighted_squared_relu", "gradients of x and weight", {}, both<WeightedSquaredReluGrad>()});

}  // namespace

}  // namespace rehearse
