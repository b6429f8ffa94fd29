// What two networks trained against each other use: tanh, and the loss of scores that are to be high or low.

#include <cmath>

#include "gpu_backend/cpu/cpu_device.hpp"
#include "gpu_backend/cpu/ops/image.hpp"

namespace rehearse {

namespace {

/// x, y
template <class T>
struct Tanh {
  static void run(const OperatorCall& c) {
    own_elements<2>({&c.operand(0), &c.operand(1)},
                    [&](const auto& at) { c.operand(1).as<T>()[at[1]] = std::tanh(c.operand(0).as<T>()[at[0]]); });
  }
};
/// dy, x, dx
template <class T>
struct TanhGrad {
  static void run(const OperatorCall& c) {
    own_elements<3>({&c.operand(0), &c.operand(1), &c.operand(2)}, [&](const auto& at) {
      const T t = std::tanh(c.operand(1).as<T>()[at[1]]);
      c.operand(2).as<T>()[at[2]] = c.operand(0).as<T>()[at[0]] * (T{1} - t * t);
    });
  }
};

/// Of a score x with sign t, whose product t x is to be large: log(1 + exp(-t x)) (Goodfellow et al. 2014, the
/// generator's as in section 3), max(0, 1 - t x) or -t x (Lim and Ye 2017). scalars: sign; 0, 1 or 2, in this order.
template <class T>
struct Judgement {
  T sign;
  int form;
  explicit Judgement(const OperatorCall& c)
      : sign(static_cast<T>(c.task->scalars.at(0))), form(static_cast<int>(c.task->scalars.at(1))) {}
  [[nodiscard]] T loss(T x) const {
    const T z = sign * x;
    if (form == 2) return -z;
    return form == 1 ? std::max(T{0}, T{1} - z) : std::log1p(std::exp(-std::abs(z))) + std::max(T{0}, -z);
  }
  [[nodiscard]] T slope(T x) const {
    const T z = sign * x;
    if (form == 2) return -sign;
    return form == 1 ? (z < T{1} ? -sign : T{0}) : -sign / (T{1} + std::exp(z));
  }
};

/// scores, loss
template <class T>
struct AdversarialLoss {
  static void run(const OperatorCall& c) {
    const Judgement<T> j(c);
    double sum = 0;
    const std::int64_t n = c.operand(0).elements();
    for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(j.loss(c.operand(0).as<T>()[i]));
    c.operand(1).as<T>()[0] = static_cast<T>(sum / static_cast<double>(std::max<std::int64_t>(1, n)));
    if (!c.first_replica) return;
    c.observed->loss_sum += sum;
    c.observed->tokens += n;
  }
};
/// scores, gradient; dims: scores that the loss is a mean over
template <class T>
struct LossGrad {
  static void run(const OperatorCall& c) {
    const Judgement<T> j(c);
    for (std::int64_t i = 0; i < c.operand(0).elements(); ++i)
      c.operand(1).as<T>()[i] = j.slope(c.operand(0).as<T>()[i]) / static_cast<T>(c.dims.at(0));
  }
};

[[maybe_unused]] const bool registered_adversarial =
    cpu_operators().add({"activation.tanh", "hyperbolic tangent", {}, both<Tanh>()}) &&
    cpu_operators().add({"activation_grad.tanh", "its gradient", {}, both<TanhGrad>()}) &&
    cpu_operators().add({"cross_entropy.adversarial", "mean loss of scores", {}, both<AdversarialLoss>()}) &&
    cpu_operators().add({"cross_entropy_grad.adversarial", "gradient of scores", {}, both<LossGrad>()});

}  // namespace

}  // namespace rehearse
