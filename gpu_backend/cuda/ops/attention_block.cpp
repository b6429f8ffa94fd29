// Attention of some queries to the first of the keys, the merging of two sets of keys, and keys repeated for the query
// heads that share them. Operands as in cpu/ops/flash_attention.cpp. A block is attention whose operands begin later:
// sample by sample, because samples lie as far apart as whole ones.

#include <limits>

#include "gpu_backend/cuda/check.hpp"
#include "gpu_backend/cuda/ops/attention_shape.hpp"

namespace rehearse::cuda {

namespace {

/// The line without its first n.
Line after(const Line& line, std::int64_t n) {
  constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
  if (n < line.length) return {line.first + n, line.length - n, line.second};
  return {line.second + n - line.length, kAll, 0};
}

/// dims[3] queries from offsets[0] on, the first dims[4] keys.
struct AttentionBlock {
  std::int64_t first, queries, keys;
  explicit AttentionBlock(const OperatorCall& c) : first(c.offsets.at(0)), queries(c.dims.at(3)), keys(c.dims.at(4)) {}
  [[nodiscard]] bool whole(const TensorView& q, const TensorView& k) const {
    return queries == q.extent(1) && keys == k.extent(1);
  }
  [[nodiscard]] AttentionShape of_sample(AttentionShape z, std::int64_t b) const {
    z.batch = 1, z.queries = queries, z.keys = keys;
    z.query = after(z.query, first), z.sample = after(z.sample, b);
    return z;
  }
  /// Row `first` of sample b, or row 0 of its keys.
  static Reals row(const TensorView& x, std::int64_t b, std::int64_t row) {
    return {x.data + static_cast<std::size_t>((b * x.extent(1) + row) * x.from(2)) * size_of(x.type), x.type};
  }
};

void clear(const OperatorCall& c, const TensorView& x) {
  REHEARSE_CUDA(cudaMemsetAsync(x.data, 0, static_cast<std::size_t>(x.elements()) * size_of(x.type), stream(c)));
}

/// q, k, v, out, log-sum-exp; what the block does not cover is written as if it were not there.
void run_block(const OperatorCall& c) {
  const TensorView &q = c.operand(0), &k = c.operand(1), &v = c.operand(2), &to = c.operand(3), &lse = c.operand(4);
  const AttentionShape z = attention_shape(c, q, k, v);
  const AttentionBlock block(c);
  if (!block.whole(q, k)) {
    clear(c, to);
    fill(stream(c), reals(lse), lse.elements(), -std::numeric_limits<double>::infinity());
  }
  const auto at = [&](const TensorView& x, std::int64_t b) { return AttentionBlock::row(x, b, block.first); };
  for (std::int64_t b = 0; b < z.batch; ++b)
    attention(stream(c), at(q, b), AttentionBlock::row(k, b, 0), AttentionBlock::row(v, b, 0), at(to, b), at(lse, b),
              block.of_sample(z, b));
}

/// output gradient, q, k, v, out, log-sum-exp; gradients of q, k, v
void run_block_grad(const OperatorCall& c) {
  const TensorView &q = c.operand(1), &k = c.operand(2);
  const AttentionShape z = attention_grad_shape(c);
  const AttentionBlock block(c);
  if (!block.whole(q, k))
    for (std::size_t i = 6; i < 9; ++i) clear(c, c.operand(i));
  void* scratch = c.launch->scratch(attention_scratch_bytes(block.of_sample(z, 0), q.type));
  for (std::int64_t b = 0; b < z.batch; ++b) {
    const auto query = [&](std::size_t i) { return AttentionBlock::row(c.operand(i), b, block.first); };
    const auto key = [&](std::size_t i) { return AttentionBlock::row(c.operand(i), b, 0); };
    attention_grad(stream(c), query(0), query(1), key(2), key(3), query(4), query(5), query(6), key(7), key(8),
                   block.of_sample(z, b), scratch);
  }
}

/// out and log-sum-exp so far (updated); those of further keys
void run_merge(const OperatorCall& c) {
  attention_merge(stream(c), reals(c.operand(0)), reals(c.operand(1)), reals(c.operand(2)), reals(c.operand(3)),
                  c.operand(1).elements(), c.operand(0).extent(3));
}

SharedHeads shared_heads(const TensorView& few, const TensorView& many) {
  return {few.elements() / few.extent(3), many.extent(2) / few.extent(2), few.extent(3)};
}
/// few, many [samples, tokens, heads, width]
void run_repeat(const OperatorCall& c) {
  repeat_heads(stream(c), reals(c.operand(0)), reals(c.operand(1)), shared_heads(c.operand(0), c.operand(1)));
}
/// many, few
void run_sum_attention_block(const OperatorCall& c) {
  sum_heads(stream(c), reals(c.operand(0)), reals(c.operand(1)), shared_heads(c.operand(1), c.operand(0)));
}

[[maybe_unused]] const bool registered_attention_block =
    cuda_operators().add({"attention_merge", "joins attention over two sets of keys", {}, any(run_merge)}) &&
    cuda_operators().add({"attention.flash_block", "attention of some queries to some keys", {}, any(run_block)}) &&
    cuda_operators().add({"attention_grad.flash_block", "its gradients", {}, any(run_block_grad)}) &&
    cuda_operators().add({"copy.repeat_heads", "keys or values once for every query head", {}, any(run_repeat)}) &&
    cuda_operators().add({"copy.sum_heads", "their gradients added up", {}, any(run_sum_attention_block)});

}  // namespace

}  // namespace rehearse::cuda
