#pragma once
// Sizes, positions and random numbers of an attention, from its operands.

#include "gpu_backend/cuda/ops/operands.hpp"

namespace rehearse::cuda {

[[nodiscard]] inline AttentionShape attention_shape(const OperatorCall& c, const TensorView& q, const TensorView& k,
                                                    const TensorView& v) {
  AttentionShape z{};
  z.batch = q.extent(0), z.queries = q.extent(1), z.keys = k.extent(1), z.heads = q.extent(2), z.kv_heads = k.extent(2),
  z.d = q.extent(3), z.v = v.extent(3);
  z.scale = c.task->scalars.at(0);
  z.causal = c.task->causal;
  z.window = c.dims.size() > 6 ? c.dims[6] : 0;
  z.query = line(q, 1), z.key = line(k, 1), z.sample = line(q, 0), z.head = line(q, 2);
  z.all_heads = q.held->shape[2], z.all_queries = q.held->shape[1], z.all_keys = k.held->shape[1];
  z.dropout = dropout_of(c, c.first_sample);
  const std::int64_t of_q = q.row_stride(q.from(2)), of_k = k.row_stride(k.from(2)), of_v = v.row_stride(v.from(2));
  z.apart = {of_q, of_k, of_v, of_q, of_k, of_v};
  return z;
}
/// The same backward: output gradient, q, k, v, out, log-sum-exp; gradients of q, k, v.
[[nodiscard]] inline AttentionShape attention_grad_shape(const OperatorCall& c) {
  AttentionShape z = attention_shape(c, c.operand(1), c.operand(2), c.operand(3));
  const TensorView &dq = c.operand(6), &dk = c.operand(7), &dv = c.operand(8);
  z.apart.dq = dq.row_stride(dq.from(2)), z.apart.dk = dk.row_stride(dk.from(2)),
  z.apart.dv = dv.row_stride(dv.from(2));
  return z;
}

}  // namespace rehearse::cuda
