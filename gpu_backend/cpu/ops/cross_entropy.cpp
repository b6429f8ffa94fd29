// Cross-entropy over logits [b, s, V] whose last dimension may be a slice of the vocabulary, in the pieces that
// collectives separate. Columns beyond the vocabulary are padding and count nowhere.

#include <algorithm>
#include <cmath>
#include <limits>

#include "gpu_backend/cpu/cpu_device.hpp"
#include "gpu_backend/cpu/team.hpp"

namespace rehearse {

namespace {

/// The vocabulary slice of a rank: `first` is its first token, `valid` how many of its `stored` columns are tokens.
struct Columns {
  std::int64_t first, stored, valid, rows;
  explicit Columns(const TensorView& logits)
      : first(logits.held->global[2].empty() ? 0 : logits.held->global[2].front().first),
        stored(logits.extent(2)),
        valid(std::clamp<std::int64_t>(logits.held->shape[2] - first, 0, stored)),
        rows(logits.extent(0) * logits.extent(1)) {}
  /// Column of a label, or -1.
  [[nodiscard]] std::int64_t of(std::int64_t label) const {
    return label >= first && label < first + valid ? label - first : -1;
  }
};

/// f(r) of each row, which other threads share.
template <class F>
void each_row(const Columns& z, const F& f) {
  constexpr std::int64_t kLeastLogits = 1 << 13;
  share(z.rows, 1 + kLeastLogits / std::max<std::int64_t>(1, z.stored), [&f](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r) f(r);
  });
}

/// logits, max
template <class T>
struct Max {
  static void run(const OperatorCall& c) {
    const Columns z(c.operand(0));
    each_row(z, [&](std::int64_t r) {
      const T* row = c.operand(0).as<T>() + r * z.stored;
      c.operand(1).as<T>()[r] =
          z.valid > 0 ? *std::max_element(row, row + z.valid) : -std::numeric_limits<T>::infinity();
    });
  }
};
/// logits, labels, max, sums [b, s, 2]: of exponentials, and the label's logit less the maximum
template <class T>
struct CrossEntropySums {
  static void run(const OperatorCall& c) {
    const Columns z(c.operand(0));
    each_row(z, [&](std::int64_t r) {
      const T *row = c.operand(0).as<T>() + r * z.stored, max = c.operand(2).as<T>()[r];
      T* out = c.operand(3).as<T>() + 2 * r;
      out[0] = T{0};
      for (std::int64_t j = 0; j < z.valid; ++j) out[0] += std::exp(row[j] - max);
      const std::int64_t at = z.of(c.operand(1).as<std::int64_t>()[r]);
      out[1] = at >= 0 ? row[at] - max : T{0};
    });
  }
};
/// logits (become exp(logit - max)), labels, max, target: the label's logit less the maximum
template <class T>
struct Exponential {
  static void run(const OperatorCall& c) {
    const Columns z(c.operand(0));
    each_row(z, [&](std::int64_t r) {
      T *row = c.operand(0).as<T>() + r * z.stored, max = c.operand(2).as<T>()[r];
      const std::int64_t at = z.of(c.operand(1).as<std::int64_t>()[r]);
      c.operand(3).as<T>()[r] = at >= 0 ? row[at] - max : T{0};
      for (std::int64_t j = 0; j < z.valid; ++j) row[j] = std::exp(row[j] - max);
      std::fill(row + z.valid, row + z.stored, T{0});
    });
  }
};
/// exponentials, sum
template <class T>
struct SumExp {
  static void run(const OperatorCall& c) {
    const Columns z(c.operand(0));
    each_row(z, [&](std::int64_t r) {
      T sum{0};
      for (std::int64_t j = 0; j < z.stored; ++j) sum += c.operand(0).as<T>()[r * z.stored + j];
      c.operand(1).as<T>()[r] = sum;
    });
  }
};
/// exponentials (become probabilities), sum
template <class T>
struct CrossEntropyNormalise {
  static void run(const OperatorCall& c) {
    const Columns z(c.operand(0));
    each_row(z, [&](std::int64_t r) {
      T *row = c.operand(0).as<T>() + r * z.stored, sum = c.operand(1).as<T>()[r];
      for (std::int64_t j = 0; j < z.stored; ++j) row[j] /= sum;
    });
  }
};

/// Tells the run the loss of `rows` tokens, once among the ranks that computed the same, and writes their mean.
template <class T, class LossOf>
void observe(const OperatorCall& c, std::int64_t rows, LossOf loss_of) {
  double sum = 0;
  for (std::int64_t r = 0; r < rows; ++r) sum += static_cast<double>(loss_of(r));
  c.operands.back().as<T>()[0] = static_cast<T>(sum / static_cast<double>(std::max<std::int64_t>(1, rows)));
  if (!c.first_replica) return;
  c.observed->loss_sum += sum;
  c.observed->tokens += rows;
}
/// sum, target, loss
template <class T>
struct CrossEntropyLoss {
  static void run(const OperatorCall& c) {
    const T *sum = c.operand(0).as<T>(), *target = c.operand(1).as<T>();
    observe<T>(c, c.operand(0).elements(), [&](std::int64_t r) { return std::log(sum[r]) - target[r]; });
  }
};
/// sums [b, s, 2], loss
template <class T>
struct LossOfSums {
  static void run(const OperatorCall& c) {
    const T* sums = c.operand(0).as<T>();
    observe<T>(c, c.operand(0).elements() / 2, [&](std::int64_t r) { return std::log(sums[2 * r]) - sums[2 * r + 1]; });
  }
};

/// (p - 1 at the label) / dims[0], from the probability of column j of row r.
template <class T, class Probability>
void gradient(const OperatorCall& c, const TensorView& logits, const TensorView& labels, T* out, Probability p) {
  const Columns z(logits);
  const T tokens = static_cast<T>(c.dims.at(0));
  each_row(z, [&](std::int64_t r) {
    const std::int64_t label = z.of(labels.as<std::int64_t>()[r]);
    T* row = out + r * z.stored;
    const T at_label = label < 0 ? T{0} : (p(r, r * z.stored + label) - T{1}) / tokens;  // Before it is overwritten.
    for (std::int64_t j = 0; j < z.valid; ++j) row[j] = p(r, r * z.stored + j) / tokens;
    std::fill(row + z.valid, row + z.stored, T{0});
    if (label >= 0) row[label] = at_label;
  });
}
/// probabilities, labels, gradient
template <class T>
struct Grad {
  static void run(const OperatorCall& c) {
    gradient(c, c.operand(0), c.operand(1), c.operand(2).as<T>(),
             [&](std::int64_t, std::int64_t at) { return c.operand(0).as<T>()[at]; });
  }
};
/// labels, probabilities (become the gradient)
template <class T>
struct GradInPlace {
  static void run(const OperatorCall& c) {
    gradient(c, c.operand(1), c.operand(0), c.operand(1).as<T>(),
             [&](std::int64_t, std::int64_t at) { return c.operand(1).as<T>()[at]; });
  }
};
/// logits, labels, gradient, max, sums
template <class T>
struct GradFused {
  static void run(const OperatorCall& c) {
    const T *max = c.operand(3).as<T>(), *sums = c.operand(4).as<T>();
    gradient(c, c.operand(0), c.operand(1), c.operand(2).as<T>(), [&](std::int64_t r, std::int64_t at) {
      return std::exp(c.operand(0).as<T>()[at] - max[r]) / sums[2 * r];
    });
  }
};

[[maybe_unused]] const bool registered_cross_entropy =
    cpu_operators().add({"cross_entropy.max", "largest logit of a token", {}, both<Max>()}) &&
    cpu_operators().add(
        {"cross_entropy.sums", "sum of exponentials, and the label's logit", {}, both<CrossEntropySums>()}) &&
    cpu_operators().add(
        {"cross_entropy.exponential", "exponentials in place, and the label's logit", {}, both<Exponential>()}) &&
    cpu_operators().add({"cross_entropy.sum_exp", "sum of exponentials", {}, both<SumExp>()}) &&
    cpu_operators().add({"cross_entropy.normalise", "probabilities in place", {}, both<CrossEntropyNormalise>()}) &&
    cpu_operators().add({"cross_entropy.loss", "mean loss", {}, both<CrossEntropyLoss>()}) &&
    cpu_operators().add({"cross_entropy.loss_of_sums", "mean loss", {}, both<LossOfSums>()}) &&
    cpu_operators().add({"cross_entropy_grad", "gradient from probabilities", {}, both<Grad>()}) &&
    cpu_operators().add(
        {"cross_entropy_grad.in_place", "gradient in place of probabilities", {}, both<GradInPlace>()}) &&
    cpu_operators().add({"cross_entropy_grad.fused", "gradient from logits", {}, both<GradFused>()});

}  // namespace

}  // namespace rehearse
