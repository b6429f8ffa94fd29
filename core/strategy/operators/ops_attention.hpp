#pragma once
// What the lowerings of attention share: on whole sequences, and over context-parallel ranks.

#include "core/strategy/operators/ops.hpp"

namespace rehearse::ops {

/// Local sizes; d of queries and keys, v of values.
struct AttentionSizes {
  ExprId batch, heads, kv_heads, q, k, d, v;
};
[[nodiscard]] AttentionSizes attention_sizes(BlockBody& b, int q, int k, int v);

/// One pass of fused attention over `z`; `kind` is attention or attention_grad.
[[nodiscard]] ComputeTask flash_task(BlockBody& b, const OpSpec& op, ComputeOp kind, const AttentionSizes& z);
/// What it writes beside the output: a number per query and head, laid out as `q`.
[[nodiscard]] int log_sum_exp(BlockBody& b, const OpSpec& op, int q);

/// Attention where sequences are split over context-parallel ranks; see `context_parallel.cpp` for the layouts.
void context_forward(BlockBody& b, const OpSpec& op);
void context_backward(BlockBody& b, const OpSpec& op);
[[nodiscard]] std::vector<int> context_saved(const OpSpec& op, const BlockOptions& options);

}  // namespace rehearse::ops
