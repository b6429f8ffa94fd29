// Attention. Flash: one kernel that keeps only the log-sum-exp. Unfused: scores, softmax, dropout and context as
// kernels of their own, which keep 5 b a s^2 bytes (Korthikanti et al. 2022, sec. 4.1); selective recomputation makes
// those again in backward.

#include <cmath>

#include <array>

#include "core/config/settings/choices.hpp"
#include "core/strategy/operators/fp8.hpp"
#include "core/strategy/operators/ops_attention.hpp"

namespace rehearse::ops {

namespace {

std::vector<ExprId> score_shape(BlockBody& b, int q, int k) {
  const Tensor &tq = b.builder().tensor(q), &tk = b.builder().tensor(k);
  return {tq.shape[0], tq.shape[2], tq.shape[1], tk.shape[1]};
}

/// Scores [b, a, s, s] lie as q does: batch on dimension 0, heads on 1.
Layout score_layout(const Layout& q) {
  Layout out;
  for (const auto& [axis, l] : q) {
    const auto* s = std::get_if<Shard>(&l);
    if (s == nullptr) continue;
    Shard moved = *s;
    if (s->dim == 2) moved.dim = 1;
    if (s->dim == 1) moved.dim = 2;
    out.emplace_back(axis, moved);
  }
  return out;
}

ComputeTask batched(BlockBody& b, const char* variant, const AttentionSizes& z, ExprId m, ExprId n, ExprId k) {
  ComputeTask t;
  t.op = ComputeOp::matmul;
  t.variant = variant;
  t.dims = {b.builder().frame().mul(z.batch, z.heads), m, n, k};
  t.arithmetic = b.builder().frame().activation_dtype == DType::fp32 ? b.builder().frame().arithmetic_dtype
                                                                     : b.builder().frame().activation_dtype;
  return t;
}

/// 1 / sqrt(head_dim), which scores are multiplied by before the softmax.
double score_scale(BlockBody& b, int q) {
  const ProgramFrame& f = b.builder().frame();
  return 1.0 / std::sqrt(static_cast<double>(f.program.exprs.evaluate(b.builder().tensor(q).shape[3], {})));
}

bool eager(BlockBody& b) { return !b.options().kernels.fused_norm; }

/// `x` with heads before tokens, or the other way round, as eager code makes it by a copy: batched products read one
/// stride from matrix to matrix, and tokens of a sample have two. Fused code reads and writes it in place. Source:
/// NVIDIA/DeepLearningExamples @729963d, PyTorch/LanguageModeling/BERT/modeling.py, BertSelfAttention.
int turned(BlockBody& b, const std::string& name, int x, Phase phase) {
  if (!eager(b)) return x;
  const int out = b.scratch_like(name, x, b.builder().tensor(x).layout);
  b.builder().compute(name, pass(ComputeOp::copy), {read(x), write(out)}, phase);
  return out;
}

/// The same of a result: the tensor that the product writes, and the copy from it to `to` once it is there.
int before_turn(BlockBody& b, const std::string& name, int to) {
  return eager(b) ? b.scratch_like(name, to, b.builder().tensor(to).layout) : to;
}
void turn(BlockBody& b, const std::string& name, int from, int to, Phase phase) {
  if (eager(b)) b.builder().compute(name, pass(ComputeOp::copy), {read(from), write(to)}, phase);
}

/// Scores to dropped probabilities; what backward needs is kept unless the core is recomputed.
int probabilities(BlockBody& b, const OpSpec& op, int q, int k, const AttentionSizes& z, Phase phase, bool keep) {
  BodyBuilder& body = b.builder();
  const DType half = body.frame().activation_dtype;
  const Layout layout = score_layout(body.tensor(q).layout);
  const auto shape = score_shape(b, q, k);
  const int scores = b.extra(name_in(op, "scores"), shape, half, layout, false);
  body.compute(name_in(op, "scores"), batched(b, "scores", z, z.q, z.k, z.d), {read(q), read(k), write(scores)}, phase);
  if (eager(b)) {
    // Eager code scales and masks in passes of their own.
    for (const char* step : {"scale", "mask"}) {
      ComputeTask task = pass(ComputeOp::scale, step);
      task.causal = op.causal;
      task.scalars = {score_scale(b, q)};
      body.compute(name_in(op, step), task, {update(scores)}, phase);
    }
  }
  const int probs = b.extra(name_in(op, "probabilities"), shape, half, layout, keep);
  ComputeTask softmax = pass(ComputeOp::softmax);
  softmax.causal = op.causal;
  softmax.scalars = {eager(b) ? 1.0 : score_scale(b, q)};
  body.compute(name_in(op, "softmax"), softmax, {read(scores), write(probs)}, phase);
  if (op.p <= 0) return probs;
  const int mask = b.extra(name_in(op, "mask"), shape, DType::uint8, layout, keep);
  const int dropped = b.extra(name_in(op, "dropped"), shape, half, layout, keep);
  ComputeTask dropout = pass(ComputeOp::dropout);
  dropout.probability = op.p;
  dropout.random = op.name;
  body.compute(name_in(op, "dropout"), dropout, {read(probs), write(mask), write(dropped)}, phase);
  return dropped;
}

void unfused_forward(BlockBody& b, const OpSpec& op) {
  const Phase phase = b.phase();
  const int q = turned(b, name_in(op, "q_turned"), b.value(op.inputs[0]), phase),
            k = turned(b, name_in(op, "k_turned"), b.value(op.inputs[1]), phase),
            v = turned(b, name_in(op, "v_turned"), b.value(op.inputs[2]), phase);
  const AttentionSizes z = attention_sizes(b, q, k, v);
  const int p = probabilities(b, op, q, k, z, phase, !b.tensors().recompute_core);
  const int out = b.result(op.outputs[0], b.stored(op.outputs[0]));
  const int made = before_turn(b, name_in(op, "context_by_head"), out);
  b.builder().compute(name_in(op, "context"), batched(b, "context", z, z.q, z.v, z.k), {read(p), read(v), write(made)},
                      phase);
  turn(b, name_in(op, "context_turned"), made, out, phase);
}

void unfused_backward(BlockBody& b, const OpSpec& op) {
  const int given = b.grad(op.outputs[0], gradient_layout(b.stored(op.outputs[0])), op.name);
  if (given < 0) return;
  BodyBuilder& body = b.builder();
  const int dout = turned(b, name_in(op, "context_grad_turned"), given, Phase::input_grad);
  const int q = b.value(op.inputs[0]), k = b.value(op.inputs[1]), v = b.value(op.inputs[2]);
  const AttentionSizes z = attention_sizes(b, q, k, v);
  const bool again = b.tensors().recompute_core && !b.tensors().recompute_all;
  if (again) {
    // The whole core runs again, as a checkpointed function does; its context is not used.
    const int p = probabilities(b, op, q, k, z, Phase::recompute, false);
    const int unused = b.scratch_like(name_in(op, "context"), dout, b.stored(op.outputs[0]));
    body.compute(name_in(op, "context"), batched(b, "context", z, z.q, z.v, z.k), {read(p), read(v), write(unused)},
                 Phase::recompute);
  }
  const bool drops = op.p > 0;
  const int probs = b.extra(name_in(op, "probabilities"));
  const int used = drops ? b.extra(name_in(op, "dropped")) : probs;
  const auto finish = [&](const char* name, ComputeTask product, std::vector<Operand> operands, int x) {
    const int out = b.scratch_like(name_in(op, name), x, body.tensor(x).layout);
    const int made = before_turn(b, name_in(op, name) + "_by_head", out);
    operands.push_back(write(made));
    body.compute(name_in(op, name), std::move(product), std::move(operands), Phase::input_grad);
    turn(b, name_in(op, name) + "_turned", made, out, Phase::input_grad);
    return out;
  };
  const int dv = finish("v_grad", batched(b, "v_grad", z, z.k, z.v, z.q), {read(used), read(dout)}, v);
  int dprobs = b.scratch_like(name_in(op, "probabilities_grad"), probs, body.tensor(probs).layout);
  body.compute(name_in(op, "probabilities_grad"), batched(b, "probabilities_grad", z, z.q, z.k, z.v),
               {read(dout), read(v), write(dprobs)}, Phase::input_grad);
  if (drops) {
    ComputeTask t = pass(ComputeOp::dropout_grad);
    t.probability = op.p;
    const int before = b.scratch_like(name_in(op, "dropout_grad"), probs, body.tensor(probs).layout);
    body.compute(name_in(op, "dropout_grad"), t, {read(dprobs), read(b.extra(name_in(op, "mask"))), write(before)},
                 Phase::input_grad);
    dprobs = before;
  }
  const int dscores = b.scratch_like(name_in(op, "scores_grad"), probs, body.tensor(probs).layout);
  ComputeTask softmax = pass(ComputeOp::softmax_grad);
  softmax.scalars = {eager(b) ? 1.0 : score_scale(b, q)};
  body.compute(name_in(op, "softmax_grad"), softmax, {read(probs), read(dprobs), write(dscores)}, Phase::input_grad);
  if (eager(b)) {
    ComputeTask scale = pass(ComputeOp::scale, "scale");
    scale.causal = false;
    scale.scalars = {score_scale(b, q)};
    body.compute(name_in(op, "scale_grad"), scale, {update(dscores)}, Phase::input_grad);
  }
  const int dq = finish("q_grad", batched(b, "q_grad", z, z.q, z.d, z.k), {read(dscores), read(k)}, q);
  const int dk = finish("k_grad", batched(b, "k_grad", z, z.k, z.d, z.q), {read(dscores), read(q)}, k);
  b.add_grad(op.inputs[0], dq, op.name);
  b.add_grad(op.inputs[1], dk, op.name);
  b.add_grad(op.inputs[2], dv, op.name);
}

/// Queries, keys and values as the kernel reads them.
std::vector<int> narrow_operands(BlockBody& b, const OpSpec& op, std::vector<int> formals, bool made_before) {
  if (!attention_in_fp8(b.builder().frame())) return formals;
  const std::array<const char*, 3> names{"q", "k", "v"};
  for (std::size_t i = 0; i < formals.size(); ++i)
    formals[i] = fp8_attention_operand(b, op, names.at(i), formals[i], made_before);
  return formals;
}

void flash_forward(BlockBody& b, const OpSpec& op) {
  const int q = b.value(op.inputs[0]), k = b.value(op.inputs[1]), v = b.value(op.inputs[2]);
  const int out = b.result(op.outputs[0], b.stored(op.outputs[0]));
  const int lse = log_sum_exp(b, op, q);
  std::vector<Operand> operands;
  for (const int x : narrow_operands(b, op, {q, k, v}, false)) operands.push_back(read(x));
  operands.insert(operands.end(), {write(out), write(lse)});
  for (const int p : op.params) operands.push_back(read(b.param(p)));
  b.builder().compute(op.name, flash_task(b, op, ComputeOp::attention, attention_sizes(b, q, k, v)),
                      std::move(operands), b.phase());
}

void flash_backward(BlockBody& b, const OpSpec& op) {
  const int dout = b.grad(op.outputs[0], gradient_layout(b.stored(op.outputs[0])), op.name);
  if (dout < 0) return;
  BodyBuilder& body = b.builder();
  const int q = b.value(op.inputs[0]), k = b.value(op.inputs[1]), v = b.value(op.inputs[2]);
  std::vector<Operand> operands{
      read(attention_in_fp8(body.frame()) ? fp8_attention_operand(b, op, "output_grad", dout, false) : dout)};
  for (const int x : narrow_operands(b, op, {q, k, v}, true)) operands.push_back(read(x));
  operands.insert(operands.end(), {read(b.value(op.outputs[0])), read(b.extra(name_in(op, "log_sum_exp")))});
  std::vector<int> grads;
  for (const int x : {q, k, v}) {
    grads.push_back(b.scratch_like(name_in(op, "input_grad"), x, body.tensor(x).layout));
    operands.push_back(write(grads.back()));
  }
  ComputeTask t = flash_task(b, op, ComputeOp::attention_grad, attention_sizes(b, q, k, v));
  for (const int p : op.params) {
    operands.push_back(read(b.param(p)));
    if (op.frozen) continue;
    operands.push_back(update(b.grad_accumulator(p)));
    t.accumulates = true;
  }
  body.compute(op.name + ".input_grad", std::move(t), std::move(operands), Phase::input_grad);
  for (std::size_t i = 0; i < grads.size(); ++i) b.add_grad(op.inputs[i], grads[i], op.name);
}

bool over_ranks(const ProgramFrame& f) { return f.program.mesh.islands().front().extent(Axis::cp) > 1; }
bool is_flash(BlockBody& b) { return b.options().kernels.attention == AttentionKernel::flash; }
void forward_attention(BlockBody& b, const OpSpec& op) {
  if (over_ranks(b.builder().frame())) return context_forward(b, op);
  is_flash(b) ? flash_forward(b, op) : unfused_forward(b, op);
}
void backward_attention(BlockBody& b, const OpSpec& op) {
  if (over_ranks(b.builder().frame())) return context_backward(b, op);
  is_flash(b) ? flash_backward(b, op) : unfused_backward(b, op);
}

std::vector<int> saved_by_attention(const OpSpec& op, const BlockOptions& options, const ProgramFrame& frame) {
  if (over_ranks(frame)) return context_saved(op, options);
  std::vector<int> out = op.inputs;
  if (options.kernels.attention == AttentionKernel::flash) out.push_back(op.outputs[0]);
  return out;
}

}  // namespace

AttentionSizes attention_sizes(BlockBody& b, int q, int k, int v) {
  BodyBuilder& body = b.builder();
  return {body.dim(q, 0), body.dim(q, 2), body.dim(k, 2), body.dim(q, 1),
          body.dim(k, 1), body.dim(q, 3), body.dim(v, 3)};
}

ComputeTask flash_task(BlockBody& b, const OpSpec& op, ComputeOp kind, const AttentionSizes& z) {
  ComputeTask t = pass(
      kind, std::string("flash") + (op.attention_window > 0 ? "_window" : "") + (op.params.empty() ? "" : "_sinks"));
  // Two products over d and v each: their mean gives work and bytes.
  ExprPool& e = b.builder().frame().program.exprs;
  const ExprId mean = e.apply(ExprOp::div, e.apply(ExprOp::add, z.d, z.v), e.constant(2));
  t.dims = {z.batch, z.heads, z.kv_heads, z.q, z.k, mean};
  if (op.attention_window > 0) t.dims.push_back(e.constant(op.attention_window));
  t.arithmetic = attention_in_fp8(b.builder().frame()) ? attention_arithmetic(b.builder().frame())
                                                       : b.builder().frame().activation_dtype;
  t.causal = op.causal;
  t.probability = op.p;
  t.random = op.name;
  t.scalars = {1.0 / std::sqrt(static_cast<double>(b.builder().frame().program.exprs.evaluate(z.d, {})))};
  return t;
}

int log_sum_exp(BlockBody& b, const OpSpec& op, int q) {
  const Tensor& tq = b.builder().tensor(q);
  return b.extra(name_in(op, "log_sum_exp"), {tq.shape[0], tq.shape[1], tq.shape[2]}, DType::fp32, tq.layout, true);
}

[[maybe_unused]] const bool registered_ops_attention =
    lower_operators({"attention"}, {forward_attention, backward_attention, saved_by_attention});

}  // namespace rehearse::ops
