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
  return z;
}

}  // namespace rehearse::cuda
