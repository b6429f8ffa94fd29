#pragma once
// Products of tokens and weights as calls of cuBLASLt, from the operands of cpu/ops/linear.cpp.

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
/// The product of output `i`, whose features begin at `row` of the weight.
[[nodiscard]] inline GemmCall linear_product(const OperatorCall& c, std::size_t i, std::int64_t row) {
  const TensorView &x = c.operand(0), &w = c.operand(1), &y = c.operand(2 + i);
  const std::int64_t in = w.extent(1), n = row_count(x, in), out = feature_count(y, n);
  GemmCall g{.m = n,
             .n = out,
             .k = in,
             .a = {x.data, x.type, in},
             .b = {element_at(w, row * in), w.type, in, true},
             .c = {y.data, y.type, out},
             .tf32 = in_tf32(c)};
  if (!c.offsets.empty() && c.offsets[0] != 0) g.bias = bias_from(c, row, out);
  return g;
}

/// Of matmul.linear_input_grad: weight, input gradient, output gradients... Those after the first are added.
[[nodiscard]] inline GemmCall input_grad_product(const OperatorCall& c, std::size_t i, std::int64_t row) {
  const TensorView &w = c.operand(0), &dx = c.operand(1), &dy = c.operand(2 + i);
  const std::int64_t in = w.extent(1), n = row_count(dx, in), out = feature_count(dy, n);
  return {.m = n,
          .n = in,
          .k = out,
          .a = {dy.data, dy.type, out},
          .b = {element_at(w, row * in), w.type, in},
          .c = {dx.data, dx.type, in},
          .beta = i == 0 ? 0.0 : 1.0,
          .tf32 = in_tf32(c)};
}

/// Of matmul.linear_weight_grad: x, weight gradient (added to), output gradients...
[[nodiscard]] inline GemmCall weight_grad_product(const OperatorCall& c, std::size_t i, std::int64_t row) {
  const TensorView &x = c.operand(0), &dw = c.operand(1), &dy = c.operand(2 + i);
  const std::int64_t in = dw.extent(1), n = row_count(x, in), out = feature_count(dy, n);
  return {.m = out,
          .n = in,
          .k = n,
          .a = {dy.data, dy.type, out, true},
          .b = {x.data, x.type, in},
          .c = {element_at(dw, row * in), dw.type, in},
          .beta = c.task->accumulates && !c.onto_zeros ? 1.0 : 0.0,
          .tf32 = in_tf32(c)};
}

}  // namespace rehearse::cuda
