// Products of tokens and weights. A weight is [out, in], row-major; with several outputs its rows are theirs, one after the other.

#include "gpu_backend/cpu/blas.hpp"
#include "gpu_backend/cpu/cpu_device.hpp"

namespace rehearse {

namespace {

/// Features of an activation: everything after batch and sequence.
std::int64_t features(const TensorView& x) { return x.from(2); }
std::int64_t tokens(const TensorView& x) { return x.elements() / std::max<std::int64_t>(1, features(x)); }

/// x, weight, outputs..., bias (where offsets has one entry: whether this rank adds it).
template <class T>
struct Linear {
  static void run(const OperatorCall& c) {
    const TensorView &x = c.operand(0), &w = c.operand(1);
    const bool biased = !c.offsets.empty();
    const std::size_t outputs = c.operands.size() - 2 - (biased ? 1 : 0);
    const T* bias = biased && c.offsets[0] != 0 ? c.operands.back().as<T>() : nullptr;
    const std::int64_t in = features(x), n = tokens(x);
    std::int64_t row = 0;
    for (std::size_t i = 0; i < outputs; ++i) {
      const TensorView& y = c.operand(2 + i);
      const std::int64_t out = features(y);
      gemm<T>(n, out, in, 1, {x.as<T>(), in}, {w.as<T>() + row * in, in, true}, 0, y.as<T>(), out);
      for (std::int64_t t = 0; bias != nullptr && t < n; ++t)
        for (std::int64_t j = 0; j < out; ++j) y.as<T>()[t * out + j] += bias[row + j];
      row += out;
    }
  }
};

/// weight, input gradient, output gradients...
template <class T>
struct InputGrad {
  static void run(const OperatorCall& c) {
    const TensorView &w = c.operand(0), &dx = c.operand(1);
    const std::int64_t in = features(dx), n = tokens(dx);
    std::int64_t row = 0;
    for (std::size_t i = 2; i < c.operands.size(); ++i) {
      const std::int64_t out = features(c.operand(i));
      gemm<T>(n, in, out, 1, {c.operand(i).as<T>(), out}, {w.as<T>() + row * in, in}, i == 2 ? T{0} : T{1}, dx.as<T>(), in);
      row += out;
    }
  }
};

/// x, weight gradient (added to), output gradients...
template <class T>
struct WeightGrad {
  static void run(const OperatorCall& c) {
    const TensorView &x = c.operand(0), &dw = c.operand(1);
    const std::int64_t in = features(x), n = tokens(x);
    const T beta = c.task->accumulates ? T{1} : T{0};
    std::int64_t row = 0;
    for (std::size_t i = 2; i < c.operands.size(); ++i) {
      const std::int64_t out = features(c.operand(i));
      gemm<T>(out, in, n, 1, {c.operand(i).as<T>(), out, true}, {x.as<T>(), in}, beta, dw.as<T>() + row * in, in);
      row += out;
    }
  }
};

/// Output gradients..., bias gradient (added to).
template <class T>
struct ColumnSum {
  static void run(const OperatorCall& c) {
    T* sum = c.operands.back().as<T>();
    for (std::size_t i = 0; i + 1 < c.operands.size(); ++i) {
      const TensorView& dy = c.operand(i);
      const std::int64_t out = features(dy), n = tokens(dy);
      for (std::int64_t t = 0; t < n; ++t)
        for (std::int64_t j = 0; j < out; ++j) sum[j] += dy.as<T>()[t * out + j];
      sum += out;
    }
  }
};

[[maybe_unused]] const bool registered = cpu_operators().add({"matmul.linear", "tokens times a weight, plus bias", {}, both<Linear>()}) &&
                                         cpu_operators().add({"matmul.linear_input_grad", "gradient of the tokens", {}, both<InputGrad>()}) &&
                                         cpu_operators().add({"matmul.linear_weight_grad", "gradient of the weight", {}, both<WeightGrad>()}) &&
                                         cpu_operators().add({"add.column_sum", "gradient of the bias", {}, both<ColumnSum>()});

}  // namespace

}  // namespace rehearse
