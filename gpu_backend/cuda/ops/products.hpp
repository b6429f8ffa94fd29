#pragma once
// Products of tokens and weights as calls of cuBLASLt, from the operands of cpu/ops/linear.cpp.

#include <vector>

#include "gpu_backend/cuda/check.hpp"
#include "gpu_backend/cuda/ops/operands.hpp"

namespace rehearse::cuda {

[[nodiscard]] inline const std::byte* element_at(const TensorView& x, std::int64_t element) {
  return x.data + static_cast<std::size_t>(element) * size_of(x.type);
}

inline constexpr std::uintptr_t kEpilogueAlignment = 16;
[[nodiscard]] inline bool aligned(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) % kEpilogueAlignment == 0;
}

/// `n` numbers of the bias from `row` on. cuBLASLt's kernels may read a bias by 16 bytes: one that begins elsewhere, as
/// that of a second output can, is copied first.
[[nodiscard]] inline const void* bias_from(const OperatorCall& c, std::int64_t row, std::int64_t n) {
  const TensorView& bias = c.operands.back();
  const std::byte* first = element_at(bias, row);
  if (aligned(first)) return first;
  const std::size_t bytes = static_cast<std::size_t>(n) * size_of(bias.type);
  void* copy = c.launch->scratch(bytes);
  REHEARSE_CUDA(cudaMemcpyAsync(copy, first, bytes, cudaMemcpyDeviceToDevice, stream(c)));
  return copy;
}

/// Of matmul.linear: x, weight, outputs..., bias (where offsets has one entry: whether this rank adds it).
[[nodiscard]] inline std::size_t outputs_of(const OperatorCall& c) {
  return c.operands.size() - 2 - (c.offsets.empty() ? 0 : 1);
}
/// Operands [first, end) of `features` together, whose rows lie side by side, or one operand: a product makes or reads
/// them.
struct Together {
  std::size_t first, end;
  std::int64_t features;
};
/// Operands [first, end), of `rows` each, in as few products as they lie.
[[nodiscard]] inline std::vector<Together> together(const OperatorCall& c, std::size_t first, std::size_t end,
                                                    std::int64_t rows) {
  std::vector<Together> out;
  for (std::size_t i = first; i < end; ++i) {
    const TensorView& x = c.operand(i);
    const std::int64_t features = feature_count(x, rows);
    if (!out.empty() && x.apart > 0) {
      Together& last = out.back();
      const TensorView& before = c.operand(last.first);
      if (before.apart == x.apart && before.type == x.type && element_at(before, last.features) == x.data) {
        last.end = i + 1, last.features += features;
        continue;
      }
    }
    out.push_back({i, i + 1, features});
  }
  return out;
}
/// Rows of the operands of a product, `features` of x each.
[[nodiscard]] inline GemmOperand rows_of(const TensorView& x, std::int64_t features, bool transposed = false) {
  return {x.data, x.type, x.row_stride(features), transposed};
}

[[nodiscard]] inline std::vector<Together> linear_outputs(const OperatorCall& c) {
  return together(c, 2, 2 + outputs_of(c), row_count(c.operand(0), c.operand(1).extent(1)));
}
/// The product of outputs whose features begin at `row` of the weight.
[[nodiscard]] inline GemmCall linear_product(const OperatorCall& c, const Together& outputs, std::int64_t row) {
  const TensorView &x = c.operand(0), &w = c.operand(1), &y = c.operand(outputs.first);
  const std::int64_t in = w.extent(1);
  GemmCall g{.m = row_count(x, in),
             .n = outputs.features,
             .k = in,
             .a = {x.data, x.type, in},
             .b = {element_at(w, row * in), w.type, in, true},
             .c = rows_of(y, outputs.features),
             .tf32 = in_tf32(c)};
  if (!c.offsets.empty() && c.offsets[0] != 0) g.bias = bias_from(c, row, outputs.features);
  return g;
}

/// Of matmul.linear_input_grad: weight, input gradient, output gradients...
[[nodiscard]] inline std::vector<Together> input_grad_terms(const OperatorCall& c) {
  return together(c, 2, c.operands.size(), row_count(c.operand(1), c.operand(0).extent(1)));
}
/// Those after the first are added.
[[nodiscard]] inline GemmCall input_grad_product(const OperatorCall& c, const Together& outputs, std::int64_t row) {
  const TensorView &w = c.operand(0), &dx = c.operand(1), &dy = c.operand(outputs.first);
  const std::int64_t in = w.extent(1);
  return {.m = row_count(dx, in),
          .n = in,
          .k = outputs.features,
          .a = rows_of(dy, outputs.features),
          .b = {element_at(w, row * in), w.type, in},
          .c = {dx.data, dx.type, in},
          .beta = outputs.first == 2 ? 0.0 : 1.0,
          .tf32 = in_tf32(c)};
}

/// Of matmul.linear_weight_grad: x, weight gradient (added to), output gradients...
[[nodiscard]] inline std::vector<Together> weight_grad_terms(const OperatorCall& c) {
  return together(c, 2, c.operands.size(), row_count(c.operand(0), c.operand(1).extent(1)));
}
[[nodiscard]] inline GemmCall weight_grad_product(const OperatorCall& c, const Together& outputs, std::int64_t row) {
  const TensorView &x = c.operand(0), &dw = c.operand(1), &dy = c.operand(outputs.first);
  const std::int64_t in = dw.extent(1);
  return {.m = outputs.features,
          .n = in,
          .k = row_count(x, in),
          .a = rows_of(dy, outputs.features, true),
          .b = {x.data, x.type, in},
          .c = {element_at(dw, row * in), dw.type, in},
          .beta = c.task->accumulates && !c.onto_zeros ? 1.0 : 0.0,
          .tf32 = in_tf32(c)};
}

}  // namespace rehearse::cuda
