#pragma once
// What the attention kernels share: places in the tensors, masks and dropout.

#include "gpu_backend/cuda/kernels/common.cuh"

namespace rehearse::cuda {

/// First element of row `s` of head `h` in a tensor [batch, rows, heads, width] whose rows begin `apart` elements from
/// each other.
__device__ inline std::int64_t place(std::int64_t b, std::int64_t s, std::int64_t h, std::int64_t rows,
                                     std::int64_t apart, std::int64_t width) {
  return (b * rows + s) * apart + h * width;
}

__device__ inline bool hidden(const AttentionShape& z, std::int64_t query, std::int64_t key) {
  if (!z.causal) return false;
  const std::int64_t before = z.query.at(query) - z.key.at(key);
  return before < 0 || (z.window > 0 && before >= z.window);
}

/// Number, in the step, of the probability of (sample b, head h, query, key).
__device__ inline std::int64_t probability_number(const AttentionShape& z, std::int64_t b, std::int64_t h,
                                                  std::int64_t query, std::int64_t key) {
  const std::int64_t head = (z.dropout.base + z.sample.at(b)) * z.all_heads + z.head.at(h);
  return (head * z.all_queries + z.query.at(query)) * z.all_keys + z.key.at(key);
}

/// What a probability is multiplied by: 1 without dropout, else 0 or 1 / (1 - p).
template <class A>
__device__ inline A kept(const AttentionShape& z, std::int64_t b, std::int64_t h, std::int64_t query,
                         std::int64_t key) {
  if (!z.dropout.on()) return A(1);
  return z.dropout.keeps_number(probability_number(z, b, h, query, key)) ? static_cast<A>(z.dropout.scale) : A(0);
}

/// Sums of dout * out over the head's width, [batch, heads, queries].
void attention_delta(cudaStream_t stream, Reals dout, Reals out, void* delta, const AttentionShape& shape);

// attention_mma.cu
void attention_mma(cudaStream_t, Reals q, Reals k, Reals v, Reals out, Reals lse, const AttentionShape& shape);
void attention_grad_mma(cudaStream_t, Reals dout, Reals q, Reals k, Reals v, Reals lse, Reals dq, Reals dk, Reals dv,
                        const AttentionShape& shape, const float* delta);

}  // namespace rehearse::cuda
