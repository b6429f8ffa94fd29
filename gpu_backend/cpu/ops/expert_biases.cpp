// Biases of experts: to every row its expert's, plain or times the row's weight.

#include <algorithm>

#include "gpu_backend/cpu/ops/expert_rows.hpp"

namespace rehearse {

namespace {

/// bias [E, out], [weights [n]], rows... (added to), [counts], [rows here]: every row gets its expert's bias, times its
/// weight.
template <class T, bool weighted>
struct ExpertBias {
  static void run(const OperatorCall& c) {
    const TensorView& bias = c.operand(0);
    const auto rows = rows_from(c, weighted ? 2 : 1);
    ExpertRows(c, bias.extent(0), rows.front()->extent(0))
        .each([&](std::int64_t e, std::int64_t first, std::int64_t n) {
          const T* of_expert = bias.as<T>() + e * bias.extent(1);
          for (const TensorView* y : rows) {
            const std::int64_t out = row_width(*y);
            for (std::int64_t r = first; r < first + n; ++r)
              for (std::int64_t j = 0; j < out; ++j)
                y->as<T>()[r * out + j] += (weighted ? c.operand(1).as<T>()[r] : T{1}) * of_expert[j];
            of_expert += out;
          }
        });
  }
};
template <class T>
using PlainBias = ExpertBias<T, false>;
template <class T>
using WeightedBias = ExpertBias<T, true>;

/// bias gradient (added to), output gradients..., [counts], [rows here]
template <class T>
struct ExpertBiasGrad {
  static void run(const OperatorCall& c) {
    sum(c, rows_from(c, 1), [](std::int64_t) { return T{1}; });
  }
  template <class Weight>
  static void sum(const OperatorCall& c, const std::vector<const TensorView*>& gradients, Weight weight) {
    const TensorView& dbias = c.operand(0);
    ExpertRows(c, dbias.extent(0), gradients.front()->extent(0))
        .each([&](std::int64_t e, std::int64_t first, std::int64_t n) {
          T* of_expert = dbias.as<T>() + e * dbias.extent(1);
          for (const TensorView* dy : gradients) {
            const std::int64_t out = row_width(*dy);
            for (std::int64_t r = first; r < first + n; ++r)
              for (std::int64_t j = 0; j < out; ++j) of_expert[j] += weight(r) * dy->as<T>()[r * out + j];
            of_expert += out;
          }
        });
  }
};
/// bias gradient (added to), bias, weights, their gradient, output gradient, [counts], [rows here]
template <class T>
struct WeightedBiasGrad {
  static void run(const OperatorCall& c) {
    const TensorView &bias = c.operand(1), &weights = c.operand(2), &dweights = c.operand(3), &dy = c.operand(4);
    ExpertBiasGrad<T>::sum(c, {&dy}, [&](std::int64_t r) { return weights.as<T>()[r]; });
    std::fill_n(dweights.as<T>(), dweights.elements(), T{0});
    const std::int64_t out = row_width(dy);
    ExpertRows(c, bias.extent(0), dy.extent(0)).each([&](std::int64_t e, std::int64_t first, std::int64_t n) {
      for (std::int64_t r = first; r < first + n; ++r)
        for (std::int64_t j = 0; j < out; ++j)
          dweights.as<T>()[r] += bias.as<T>()[e * out + j] * dy.as<T>()[r * out + j];
    });
  }
};

[[maybe_unused]] const bool registered_expert_biases =
    cpu_operators().add({"add.expert_bias", "its expert's bias to every row", {}, both<PlainBias>()}) &&
    cpu_operators().add({"add.weighted_expert_bias", "the same times the row's weight", {}, both<WeightedBias>()}) &&
    cpu_operators().add({"add.expert_bias_grad", "gradient of the experts' biases", {}, both<ExpertBiasGrad>()}) &&
    cpu_operators().add({"add.weighted_expert_bias_grad",
                         "gradients of the experts' biases and the rows' weights",
                         {},
                         both<WeightedBiasGrad>()});

}  // namespace

}  // namespace rehearse
