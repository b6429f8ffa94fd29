#pragma once
// Tasks: what a body (body.hpp) is made of. They hold no times.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "core/base/sample_field.hpp"
#include "core/collective/collective_op.hpp"
#include "core/program/tensor.hpp"

namespace rehearse {

/// Index into Program::streams. Streams are FIFO queues of one rank; the list is open.
using StreamId = std::int16_t;

/// Compute tasks, at kernel granularity. Each has a CPU reference, found by op and variant (gpu_backend/README.md lists
/// the operands each takes, in order). `dims` of ComputeTask by op:
enum class ComputeOp : std::uint8_t {
  matmul,  ///< dims {batch, m, n, k}: C[m,n] (+)= op(A)[m,k] op(B)[k,n]
  /// dims {groups, m, n, k}: a product per group, where m (or k, with transpose_a) is the sum over all groups, divided
  /// as `group_sizes` says
  grouped_matmul,
  /// dims {batch, heads, kv_heads, seq_q, seq_k, head_dim}: fused (flash) forward; writes log-sum-exp. head_dim is the
  /// mean of that of queries and of values, where they differ. Variant "flash_block": offsets {first local query},
  /// of the operands' queries seq_q from there on, and of their keys the first seq_k; scalars {scale, weight}, weight
  /// being what the full square counts for the block over its own size
  attention,
  attention_grad,  ///< same dims
  softmax,         ///< scale, causal mask and softmax over rows
  softmax_grad,
  dropout,
  dropout_grad,
  dropout_add,  ///< bias, dropout and residual in one pass
  dropout_add_grad,
  norm,
  norm_grad,  ///< layer or RMS norm
  activation,
  activation_grad,  ///< gelu, silu_mul with bias
  rope,
  rope_grad,
  add,
  scale,
  cast,
  copy,
  embedding,
  embedding_grad,
  /// Vocabulary-parallel pieces are separated by their collectives. dims {tokens} of the gradient: how many
  /// the loss is a mean over, apart from what the gradients' reduction divides by.
  cross_entropy,
  cross_entropy_grad,
  /// Experts: top-k gate; dims {tokens, experts, k, groups, groups per token, tokens of the replica,
  /// microbatches, replicas in the loss's scope}, scalars {scale, aux, z, whether weights are normalised}
  route,
  permute,
  unpermute,  ///< Tokens to expert order and back.
  /// dims {groups, m, n, k} of the product it is: m output pixels of the batch, n output channels and k input channels
  /// times window of a group. scalars: per side kernel, stride, padding, dilation; then groups, transposed (0 or 1),
  /// output and input channels of a group
  convolution,
  convolution_grad,  ///< variant "input" or "weight"; scalars as forward, dims of as many operations
  pool,
  pool_grad,   ///< variant "max", "average" or "global"; scalars as a convolution's windows
  optimizer,   ///< One parameter update per element of the shard
  square_sum,  ///< For the gradient norm
  fill,
  route_grad,
  permute_grad,
  histogram,  ///< Gate's backward; tokens per expert
  attention_merge,
  attention_merge_grad,  ///< Partial attention results joined by log-sum-exp (ring attention)
  statistics,            ///< Batch moments, reduced over `scope` before `norm` uses them
  quantise,              ///< To fp8 with scaling
  /// dims {batch, tokens, heads, head_dim, groups, state, window, chunk}: OpKind::state_space on local heads and
  /// groups. Operands z, x, b, c, dt, convolution's weight and bias, a_log, d, dt_bias, y.
  state_space,
  /// Same dims. Operands dy, then the ten that are read forward, gradients of z, x, b, c, dt; then, where the task
  /// accumulates, those of the five weights.
  state_space_grad
};
[[nodiscard]] std::string_view name_of(ComputeOp op);

/// What part of training a task belongs to; breakdowns and recomputation accounting read it.
enum class Phase : std::uint8_t { forward, recompute, input_grad, weight_grad, optimizer, other };

struct ComputeTask {
  ComputeOp op = ComputeOp::copy;
  std::vector<ExprId> dims;  ///< As listed at the op; empty for ops that work element by element.
  DType arithmetic = DType::fp32;
  DType accumulate = DType::fp32;
  bool transpose_a = false, transpose_b = false;
  bool accumulates = false;               ///< Adds to its output (gradient accumulation) ...
  ExprId accumulate_if = ExprPool::kOne;  ///< ... where this is non-zero; elsewhere it overwrites.
  bool causal = false;
  double probability = 0.0;  ///< Dropout.
  double epsilon = 0.0;
  /// "gelu", "silu_mul", "layer_norm", "rms_norm", "adam": which of the op's functions.
  std::string variant;
  /// Op-specific: first vocabulary row (embedding); whether this rank adds the bias (matmul) or counts the
  /// operand (square_sum, one per operand read).
  std::vector<ExprId> offsets;
  /// Calls of the framework: several where pieces are launched one by one, none where a library launches it within
  /// another's.
  int kernels = 1;
  /// Bytes that a cost model lets it move, over those of its operands: more where frameworks run several kernels,
  /// 0 where another kernel does its work on the way. The result is the same; nothing that executes reads it.
  double passes = 1;
  /// Name of the op in the random stream: numbers are a function of (seed, step, name, layer, microbatch, global
  /// element).
  std::string random;
  /// Constants of the function: learning rate, betas, weight decay, attention scale.
  std::vector<double> scalars;
  int factor = -1;       ///< Formal with a runtime scale (clip coefficient, loss scale), or -1.
  int group_sizes = -1;  ///< Formal with rows per group (grouped_matmul, permute), or -1.
  /// Formal with original token positions, for randomness after a permutation, or -1.
  int element_ids = -1;
  /// Reduction scope of statistics ("microbatch", "replica", "global"), where the op has any.
  std::string scope;
};

/// A collective over a group family: one launch. Operands stand in pairs (read, write), or alone with `update` for in
/// place; sizes come from their local shapes. Per-peer element counts of an all-to-all whose shares differ are
/// expressions of Var::peer. The reduced result is divided by `divisor` (mean of gradients).
struct CollectiveTask {
  CollectiveOp op = CollectiveOp::all_reduce;
  int group = 0;  ///< Index into Program::groups.
  ReduceOp reduce = ReduceOp::sum;
  ExprId divisor = ExprPool::kOne;
  int root = -1;  ///< Position in the group, for broadcast and reduce.
  bool variable_counts = false;
  /// The ranks' pieces follow each other unpadded: they begin where element sizes put them.
  bool packed = false;
  /// Kernels of the dispatcher's own move it (DeepEP, HybridEP), not a library's sends and receives.
  bool direct = false;
  ExprId count_to_peer, count_from_peer;
};

/// One end of a point-to-point message. A message is identified by group, edge, both ranks, chunk, microbatch, pass,
/// step and tag, and by the layer where the edge is per layer; each is the entry's plus the delta. For every pair of
/// ranks of one communicator the order of sends equals that of receives (validated), as libraries without tags need. A
/// communicator of messages is (group, edge, sender, receiver): it lies on one stream at either end.
struct P2pTask {
  enum class Direction : std::uint8_t { send, receive } direction = Direction::send;
  int group = 0;  ///< Family along which the peer lies.
  ExprId peer;    ///< Position of the peer in the group.
  int edge = 0;   ///< Index into Program::edges.
  int layer_delta = 0, chunk_delta = 0, microbatch_delta = 0, step_delta = 0;
  ExprId tag = ExprPool::kZero;
  int batch = -1;  ///< Messages of one body with the same non-negative number are one group call.
};

/// A copy between memory spaces of one rank; spaces and sizes come from the operands.
struct CopyTask {};
/// Work of the host: a registered routine ("launch", "data_loader.collate").
struct HostTask {
  std::string routine;
};
/// Input: samples read from storage and decoded.
/// `first` is the global index, in the step, of the first sample; `what` names the field of a sample for people
/// ("tokens", "loss.labels").
struct InputTask {
  ExprId samples;
  ExprId first = ExprPool::kZero;
  std::string what;
  SampleField field = SampleField::other;
};
/// A scalar decision that later entries may read: gradient norm, overflow vote.
/// that predicates see as dynamic dimension `dynamic` (bound 1).
struct ScalarTask {
  std::string what;
  int dynamic = -1;
};

using TaskKind = std::variant<ComputeTask, CollectiveTask, P2pTask, CopyTask, HostTask, InputTask, ScalarTask>;

enum class Access : std::uint8_t { read, write, update };
struct Operand {
  int formal = 0;
  Access access = Access::read;
};

struct Task {
  std::string name;  ///< "attention.qkv", unique enough to read in a trace.
  TaskKind kind;
  std::vector<Operand> operands;
  StreamId stream = 0;
  Phase phase = Phase::forward;
  /// Runs where non-zero; all members of a collective agree. Dependencies through a skipped task stay.
  ExprId predicate = ExprPool::kOne;
  double sm_share = 0;     ///< Share of the SMs it is given; 0: whatever is free.
  bool host_wait = false;  ///< The host issues nothing later before this task is done.
};

}  // namespace rehearse
