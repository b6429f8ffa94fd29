// Products of tokens and weights. A weight is [out, in], row-major; with several outputs its rows are theirs, one after
// the other.

#include <algorithm>

#include "gpu_backend/cpu/blas.hpp"
#include "gpu_backend/cpu/cpu_device.hpp"
#include "gpu_backend/execute/operands.hpp"

namespace rehearse {

namespace {

/// x, weight, outputs..., bias (where offsets has one entry: whether this rank adds it).
template <class T>
struct Linear {
  static void run(const OperatorCall& c) {
    const TensorView &x = c.operand(0), &w = c.operand(1);
    const bool biased = !c.offsets.empty();
    const std::size_t outputs = c.operands.size() - 2 - (biased ? 1 : 0);
    const T* bias = biased && c.offsets[0] != 0 ? c.operands.back().as<T>() : nullptr;
    const std::int64_t in = w.extent(1), n = row_count(x, in);
    std::int64_t row = 0;
    for (std::size_t i = 0; i < outputs; ++i) {
      const TensorView& y = c.operand(2 + i);
      const std::int64_t out = feature_count(y, n);
      gemm<T>(n, out, in, 1, {x.as<T>(), in}, {w.as<T>() + row * in, in, true}, 0, y.as<T>(), out);
      for (std::int64_t t = 0; bias != nullptr && t < n; ++t)
        for (std::int64_t j = 0; j < out; ++j) y.as<T>()[t * out + j] += bias[row + j];
      row += out;
    }
  }
};

/// As Linear, where x or the outputs have a piece of the sequence only: those rows of the other.
template <class T>
struct LinearPiece {
  static void run(const OperatorCall& c) {
    const TensorView &x = c.operand(0), &w = c.operand(1);
    const bool biased = !c.offsets.empty();
    const std::size_t outputs = c.operands.size() - 2 - (biased ? 1 : 0);
    const T* bias = biased && c.offsets[0] != 0 ? c.operands.back().as<T>() : nullptr;
    const std::int64_t in = w.extent(1);
    std::int64_t row = 0;
    for (std::size_t i = 0; i < outputs; ++i) {
      const TensorView& y = c.operand(2 + i);
      const std::int64_t out = y.from(2), n = std::min(x.extent(1), y.extent(1)), from = place_of(y, x, n),
                         to = place_of(x, y, n);
      for (std::int64_t b = 0; b < x.extent(0); ++b) {
        T* at = y.as<T>() + (b * y.extent(1) + to) * out;
        gemm<T>(n, out, in, 1, {x.as<T>() + (b * x.extent(1) + from) * in, in}, {w.as<T>() + row * in, in, true}, 0, at,
                out);
        for (std::int64_t t = 0; bias != nullptr && t < n; ++t)
          for (std::int64_t j = 0; j < out; ++j) at[t * out + j] += bias[row + j];
      }
      row += out;
    }
  }
};

/// As InputGrad of one output, of whose gradient there is a piece.
template <class T>
struct InputGradPiece {
  static void run(const OperatorCall& c) {
    const TensorView &w = c.operand(0), &dx = c.operand(1), &dy = c.operand(2);
    const std::int64_t in = w.extent(1), out = dy.from(2), n = dy.extent(1), to = place_of(dy, dx, n);
    for (std::int64_t b = 0; b < dy.extent(0); ++b)
      gemm<T>(n, in, out, 1, {dy.as<T>() + b * n * out, out}, {w.as<T>(), in}, 0,
              dx.as<T>() + (b * dx.extent(1) + to) * in, in);
  }
};

/// weight, input gradient, output gradients...
template <class T>
struct InputGrad {
  static void run(const OperatorCall& c) {
    const TensorView &w = c.operand(0), &dx = c.operand(1);
    const std::int64_t in = w.extent(1), n = row_count(dx, in);
    std::int64_t row = 0;
    for (std::size_t i = 2; i < c.operands.size(); ++i) {
      const std::int64_t out = feature_count(c.operand(i), n);
      gemm<T>(n, in, out, 1, {c.operand(i).as<T>(), out}, {w.as<T>() + row * in, in}, i == 2 ? T{0} : T{1}, dx.as<T>(),
              in);
      row += out;
    }
  }
};

/// x, weight gradient (added to), output gradients...
template <class T>
struct WeightGrad {
  static void run(const OperatorCall& c) {
    const TensorView &x = c.operand(0), &dw = c.operand(1);
    const std::int64_t in = dw.extent(1), n = row_count(x, in);
    const T beta = c.task->accumulates ? T{1} : T{0};
    std::int64_t row = 0;
    for (std::size_t i = 2; i < c.operands.size(); ++i) {
      const std::int64_t out = feature_count(c.operand(i), n);
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
    std::int64_t elements = 0;
    for (std::size_t i = 0; i + 1 < c.operands.size(); ++i) elements += c.operand(i).elements();
    const std::int64_t n = elements / std::max<std::int64_t>(1, c.operands.back().elements());
    for (std::size_t i = 0; i + 1 < c.operands.size(); ++i) {
      const TensorView& dy = c.operand(i);
      const std::int64_t out = feature_count(dy, n);
      for (std::int64_t t = 0; t < n; ++t)
        for (std::int64_t j = 0; j < out; ++j) sum[j] += dy.as<T>()[t * out + j];
      sum += out;
    }
  }
};

[[maybe_unused]] const bool registered_linear =
    cpu_operators().add({"matmul.linear", "tokens times a weight, plus bias", {}, both<Linear>()}) &&
    cpu_operators().add({"matmul.linear_piece", "a piece of the tokens times a weight", {}, both<LinearPiece>()}) &&
    cpu_operators().add(
        {"matmul.linear_input_grad_piece", "gradient of a piece of the tokens", {}, both<InputGradPiece>()}) &&
    cpu_operators().add({"matmul.linear_input_grad", "gradient of the tokens", {}, both<InputGrad>()}) &&
    cpu_operators().add({"matmul.linear_weight_grad", "gradient of the weight", {}, both<WeightGrad>()}) &&
    cpu_operators().add({"add.column_sum", "gradient of the bias", {}, both<ColumnSum>()});

}  // namespace

}  // namespace rehearse
