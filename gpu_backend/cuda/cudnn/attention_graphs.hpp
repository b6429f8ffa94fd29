#pragma once
// Attention and its gradients as graphs of cuDNN operations, in the form that cuDNN's fused kernels are found by: its
// documentation's "scaled dot-product attention", forward (FlashAttention-2, Dao 2023) and backward. Scores and
// probabilities are tensors between operations: they are never stored.

#include <memory>

#include "gpu_backend/cuda/cudnn/graph.hpp"
#include "gpu_backend/cuda/kernels/kernels.hpp"

namespace rehearse::cuda {

/// Sizes of an attention in bfloat16: q, out and their gradients [batch, queries, heads, d or v], k and v [batch, keys,
/// kv_heads, d or v]; the log-sum-exp [batch, queries, heads] in fp32. Rows lie one after the other where `apart` says
/// 0 of them.
struct FusedAttentionShape {
  std::int64_t batch, queries, keys, heads, kv_heads, d, v;
  bool causal;              ///< A query sees the keys up to its own number.
  std::int64_t window = 0;  ///< The last so many of those; 0: all.
  AttentionRows apart{};
  auto operator<=>(const FusedAttentionShape&) const = default;
};

/// Ids of what lies in memory, and of the numbers that the host gives.
enum FusedAttentionId : std::int64_t {
  kFusedQ = 1,
  kFusedK,
  kFusedV,
  kFusedOut,
  kFusedLse,
  kFusedDout,
  kFusedDq,
  kFusedDk,
  kFusedDv,
  kFusedDelta,    ///< Scratch of backward: sums of dout * out, [batch, heads, queries] in fp32.
  kFusedDqSum,    ///< Scratch of backward unless it is deterministic: dq in fp32, [batch, heads, queries, d].
  kFusedScale,    ///< What scores are multiplied by.
  kFusedNothing,  ///< What hidden scores are replaced by: minus infinity, or the lowest number before cuDNN 9.10.
  kFusedOutside,  ///< The same for those before the window.
  kFusedWindow,
  kFusedOne
};

/// Throw CudnnFailure.
[[nodiscard]] std::unique_ptr<CudnnGraph> fused_attention_graph(const FusedAttentionShape& shape);
/// Deterministic: dq is made without additions whose order the chip decides.
[[nodiscard]] std::unique_ptr<CudnnGraph> fused_attention_grad_graph(const FusedAttentionShape& shape,
                                                                     bool deterministic);

}  // namespace rehearse::cuda
