// Attention over context-parallel ranks, each with a slice of every sequence.
//
// Ring (Liu et al. 2023): keys and values hop from rank to rank while the block at hand is computed; blocks are joined
// by their log-sum-exp. Backward starts with the block that forward ended with and turns the other way, so that every
// block's gradient, which travels along and gathers a term on each rank, ends at home. Causal sequences are dealt in 2k
// pieces, rank i holding i and 2k-1-i: but for its own block a rank always computes half of one, either all its queries
// with the earlier half of the keys or the later half of its queries with all keys (Llama 3 and Megatron deal so too).
// Ulysses (Jacobs et al. 2023): all-to-all to slices of heads with whole sequences, and back.
// All-gather (Dubey et al. 2024, sec. 3.3.2): every rank has all keys and values.
//
// In fp8, ring and Ulysses: queries, keys and values are cast before they travel, which halves what does; the output,
// and all gradients, stay in 16 bits (NVIDIA/TransformerEngine, context_parallel.py; it sends gradients of keys and
// values in fp8 too, once and all to all).

#include <array>
#include <vector>

#include "core/base/index.hpp"
#include "core/config/settings/choices.hpp"
#include "core/strategy/operators/fp8.hpp"
#include "core/strategy/operators/ops_attention.hpp"

namespace rehearse::ops {

namespace {

constexpr int kContextSequence = 1, kHeads = 2;

bool keys_in_fp8(BlockBody& b) { return attention_in_fp8(b.builder().frame()); }

/// `formal` as the kernel reads it.
int narrow(BlockBody& b, const OpSpec& op, const char* what, int formal, bool made_before) {
  return keys_in_fp8(b) ? fp8_attention_operand(b, op, what, formal, made_before) : formal;
}

/// For the gradient of input `i`, of which `like` is what the kernel reads.
int gradient_of(BlockBody& b, const OpSpec& op, const char* name, std::size_t i, int like, const Layout& layout) {
  return keys_in_fp8(b) ? b.scratch_of(op.inputs[i], name_in(op, name), layout)
                        : b.scratch_like(name_in(op, name), like, layout);
}

/// Whether context parallelism is PyTorch's.
bool torch_calls(BlockBody& b) { return b.options().kernels.samples_first; }

/// `layout` with its slices of the sequence moved on by `hops` ranks.
Layout turned(Layout layout, int hops) {
  for (auto& [axis, l] : layout)
    if (axis == Axis::cp) std::get<Shard>(l).turned = hops;
  return layout;
}

// ---- ring

using KeyValue = std::array<int, 2>;

/// Every rank hands its keys and values, or their gradients, to a neighbour.
void hop(BlockBody& b, const std::string& name, const KeyValue& from, const KeyValue& to, Phase phase) {
  CollectiveTask c;
  c.op = CollectiveOp::send_recv;
  c.group = b.builder().frame().group("cp", {Axis::cp});
  Task task;
  task.name = name;
  task.kind = c;
  task.operands = {read(from[0]), write(to[0]), read(from[1]), write(to[1])};
  task.stream = b.builder().frame().cp;
  task.phase = phase;
  b.builder().add(std::move(task));
}

KeyValue buffers(BlockBody& b, const OpSpec& op, const char* what, const KeyValue& like, int hops) {
  KeyValue out{};
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = b.scratch_like(name_in(op, what), like[i], turned(b.builder().tensor(like[i]).layout, hops));
  return out;
}

/// Keys and values of the rank `hops` before this one. Where forward ends, backward begins: those are kept.
KeyValue last_block(BlockBody& b, const OpSpec& op, const KeyValue& own) {
  const char* names[] = {"last_keys", "last_values"};
  KeyValue out{};
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Tensor t = b.builder().tensor(own[i]);
    out[i] = b.extra(name_in(op, names[i]), t.shape, t.dtype, turned(t.layout, ranks_along(b, Axis::cp) - 1), true);
  }
  return out;
}

/// The block of this rank's queries and the keys of the rank `hops` before it.
ComputeTask block_task(BlockBody& b, const OpSpec& op, ComputeOp kind, AttentionSizes z, int hops) {
  ExprPool& e = b.builder().frame().program.exprs;
  ExprId first = ExprPool::kZero;
  const bool off_diagonal = op.causal && hops > 0;
  if (off_diagonal) {
    const ExprId earlier = e.apply(ExprOp::le, e.constant(hops), e.coord(Axis::cp)), two = e.constant(2);
    const ExprId half_q = e.apply(ExprOp::div, z.q, two), half_k = e.apply(ExprOp::div, z.k, two);
    first = e.apply(ExprOp::select, earlier, ExprPool::kZero, half_q);
    z.q = e.apply(ExprOp::select, earlier, z.q, half_q);
    z.k = e.apply(ExprOp::select, earlier, half_k, z.k);
  }
  ComputeTask t = flash_task(b, op, kind, z);
  t.variant = "flash_block";
  t.causal = op.causal && hops == 0;
  t.offsets = {first};
  // Causal squares count in full: what lies below the diagonal for itself and for its mirror image.
  t.scalars.push_back(off_diagonal ? 2.0 : 1.0);
  return t;
}

ComputeTask merge_task(const AttentionSizes& z, const ComputeTask& block) {
  ComputeTask t = pass(ComputeOp::attention_merge);
  t.dims = {z.batch, z.heads, block.dims[3], z.v};
  return t;
}

/// Keys and values, once for every query head that reads them (repeat_kv of pytorch/torchtitan @9dec370,
/// models/llama/model.py).
KeyValue repeated(BlockBody& b, const OpSpec& op, const KeyValue& own, int q) {
  BodyBuilder& body = b.builder();
  KeyValue out = own;
  if (!torch_calls(b) || body.tensor(own[0]).shape[kHeads] == body.tensor(q).shape[kHeads]) return out;
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = b.scratch_like(name_in(op, "repeated"), q, body.tensor(q).layout);
    body.compute(name_in(op, "repeat"), pass(ComputeOp::copy, "repeat_heads"), {read(own[i]), write(out[i])},
                 b.phase());
  }
  return out;
}

void ring_forward(BlockBody& b, const OpSpec& op) {
  BodyBuilder& body = b.builder();
  const int q = narrow(b, op, "q", b.value(op.inputs[0]), false), ranks = ranks_along(b, Axis::cp);
  const KeyValue whole = repeated(b, op, {b.value(op.inputs[1]), b.value(op.inputs[2])}, q);
  const KeyValue own{narrow(b, op, "k", whole[0], false), narrow(b, op, "v", whole[1], false)};
  const AttentionSizes z = attention_sizes(b, q, own[0], own[1]);
  const int out = b.result(op.outputs[0], b.stored(op.outputs[0])), lse = log_sum_exp(b, op, q);
  std::vector<KeyValue> at{own};
  const auto fetch = [&] {
    const int hops = static_cast<int>(at.size());
    at.push_back(hops + 1 == ranks ? last_block(b, op, own) : buffers(b, op, "keys_values", own, hops));
    hop(b, name_in(op, "ring"), at[at.size() - 2], at.back(), b.phase());
  };
  while (torch_calls(b) && static_cast<int>(at.size()) < ranks) fetch();
  for (int hops = 0; hops < ranks; ++hops) {
    if (!torch_calls(b) && hops + 1 < ranks) fetch();
    const ComputeTask block = block_task(b, op, ComputeOp::attention, z, hops);
    const int part = hops == 0 ? out : b.scratch_like(name_in(op, "part"), out, body.tensor(out).layout);
    const int part_lse =
        hops == 0 ? lse : b.scratch_like(name_in(op, "part_log_sum_exp"), lse, body.tensor(lse).layout);
    const auto i = static_cast<std::size_t>(hops);
    std::vector<Operand> operands{read(q), read(at[i][0]), read(at[i][1]), write(part), write(part_lse)};
    if (torch_calls(b)) operands.push_back(read(at.back()[0]));
    body.compute(op.name, block, std::move(operands), b.phase());
    if (hops > 0)
      body.compute(name_in(op, "merge"), merge_task(z, block), {update(out), update(lse), read(part), read(part_lse)},
                   b.phase());
  }
}

int added(BlockBody& b, const OpSpec& op, int sum, int term) {
  const int out = b.scratch_like(name_in(op, "sum"), sum, b.builder().tensor(term).layout);
  b.builder().compute(name_in(op, "add"), pass(ComputeOp::add), {read(sum), read(term), write(out)}, Phase::input_grad);
  return out;
}

/// In the type that travels.
int widened(BlockBody& b, const OpSpec& op, int term) {
  if (!torch_calls(b)) return term;
  const int out = b.scratch_like(name_in(op, "wide"), term, DType::fp32);
  b.builder().compute(name_in(op, "widen"), pass(ComputeOp::cast), {read(term), write(out)}, Phase::input_grad);
  return out;
}

/// Gradients of keys or values as the model has them: in its own type, added up over query heads that share one.
int narrowed(BlockBody& b, const OpSpec& op, int sum, std::size_t input) {
  if (!torch_calls(b)) return sum;
  const int x = op.inputs[input], out = b.scratch_of(x, name_in(op, "narrow"), b.stored(x));
  const bool shared = b.builder().tensor(out).shape[kHeads] != b.builder().tensor(sum).shape[kHeads];
  b.builder().compute(name_in(op, "narrow"), shared ? pass(ComputeOp::copy, "sum_heads") : pass(ComputeOp::cast),
                      {read(sum), write(out)}, Phase::input_grad);
  return out;
}

void ring_backward(BlockBody& b, const OpSpec& op) {
  const int dout = b.grad(op.outputs[0], gradient_layout(b.stored(op.outputs[0])), op.name);
  if (dout < 0) return;
  BodyBuilder& body = b.builder();
  const int q = b.value(op.inputs[0]), out = b.value(op.outputs[0]), lse = b.extra(name_in(op, "log_sum_exp")),
            ranks = ranks_along(b, Axis::cp);
  const int dout_read = narrow(b, op, "output_grad", dout, false), q_read = narrow(b, op, "q", q, true);
  const KeyValue last{b.extra(name_in(op, "last_keys")), b.extra(name_in(op, "last_values"))};
  const AttentionSizes z = attention_sizes(b, q, last[0], last[1]);
  std::vector<KeyValue> at{last};
  const auto fetch = [&](int hops) {
    at.push_back(buffers(b, op, "keys_values", last, hops));
    hop(b, name_in(op, "ring"), at[at.size() - 2], at.back(), Phase::input_grad);
  };
  for (int hops = ranks - 1; torch_calls(b) && hops > 0; --hops) fetch(hops - 1);
  KeyValue sum{};
  int dq = -1;
  for (int hops = ranks - 1; hops >= 0; --hops) {
    KeyValue arrived{};
    if (!torch_calls(b) && hops > 0) fetch(hops - 1);
    const bool first = hops + 1 == ranks;
    if (!first) {
      for (std::size_t i = 0; i < arrived.size(); ++i)
        arrived[i] = b.scratch_like(name_in(op, "gradients"), sum[i], turned(body.tensor(last[i]).layout, hops));
      hop(b, name_in(op, "ring_grad"), sum, arrived, Phase::input_grad);
    }
    const int dq_part = b.scratch_like(name_in(op, "q_grad"), q, body.tensor(q).layout);
    KeyValue part{};
    for (std::size_t i = 0; i < part.size(); ++i)
      part[i] = gradient_of(b, op, "kv_grad", i + 1, last[i], turned(body.tensor(last[i]).layout, hops));
    const KeyValue& keys = nth(at, ranks - 1 - hops);
    std::vector<Operand> operands{read(dout_read), read(q_read),   read(keys[0]),  read(keys[1]), read(out),
                                  read(lse),       write(dq_part), write(part[0]), write(part[1])};
    if (torch_calls(b)) operands.push_back(read(first ? at.back()[0] : arrived[0]));
    body.compute(op.name + ".input_grad", block_task(b, op, ComputeOp::attention_grad, z, hops), std::move(operands),
                 Phase::input_grad);
    dq = first ? widened(b, op, dq_part) : added(b, op, dq, dq_part);
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] = first ? widened(b, op, part[i]) : added(b, op, arrived[i], part[i]);
  }
  b.add_grad(op.inputs[0], narrowed(b, op, dq, 0), op.name);
  b.add_grad(op.inputs[1], narrowed(b, op, sum[0], 1), op.name);
  b.add_grad(op.inputs[2], narrowed(b, op, sum[1], 2), op.name);
}

// ---- Ulysses

/// Whole sequences, and of the heads that tensor parallelism leaves a slice.
Layout by_heads(const Layout& layout) {
  Layout out = with_axis(layout, Axis::cp, Replicate{});
  out.emplace_back(Axis::cp, shard_on(kHeads));
  return out;
}

constexpr std::array<const char*, 3> kByHeads{"q_heads", "k_heads", "v_heads"}, kRead{"q", "k", "v"};

/// Input `i` by heads: it is what backward reads, so it is kept.
int exchanged(BlockBody& b, const OpSpec& op, std::size_t i) {
  BodyBuilder& body = b.builder();
  const int from = narrow(b, op, kRead[i], b.value(op.inputs[i]), false);
  const Tensor t = body.tensor(from);
  const int to = b.extra(name_in(op, kByHeads[i]), t.shape, t.dtype, by_heads(t.layout), true);
  CollectiveTask c;
  c.op = CollectiveOp::all_to_all;
  c.group = body.frame().group("cp", {Axis::cp});
  Task task;
  task.name = name_in(op, kByHeads[i]);
  task.kind = c;
  task.operands = {read(from), write(to)};
  task.stream = body.frame().cp;
  task.phase = b.phase();
  body.add(std::move(task));
  return to;
}

void ulysses_forward(BlockBody& b, const OpSpec& op) {
  const int q = exchanged(b, op, 0), k = exchanged(b, op, 1), v = exchanged(b, op, 2), lse = log_sum_exp(b, op, q);
  const Tensor& result = nth(b.builder().frame().program.tensors, nth(b.tensors().value, op.outputs[0]));
  const int out = b.extra(name_in(op, "out_heads"), result.shape, result.dtype, by_heads(Layout(result.layout)), true);
  b.builder().compute(op.name, flash_task(b, op, ComputeOp::attention, attention_sizes(b, q, k, v)),
                      {read(q), read(k), read(v), write(out), write(lse)}, b.phase());
  b.keep(op.outputs[0], out, name_in(op, "out_heads"));
}

void ulysses_backward(BlockBody& b, const OpSpec& op) {
  const int dout = b.grad(op.outputs[0], by_heads(gradient_layout(b.stored(op.outputs[0]))), op.name);
  if (dout < 0) return;
  BodyBuilder& body = b.builder();
  std::vector<Operand> operands{read(narrow(b, op, "output_grad", dout, false))};
  std::vector<int> inputs, grads;
  for (const char* name : kByHeads) {
    inputs.push_back(b.extra(name_in(op, name)));
    operands.push_back(read(inputs.back()));
  }
  operands.push_back(read(b.extra(name_in(op, "out_heads"))));
  operands.push_back(read(b.extra(name_in(op, "log_sum_exp"))));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    grads.push_back(gradient_of(b, op, "input_grad", i, inputs[i], body.tensor(inputs[i]).layout));
    operands.push_back(write(grads.back()));
  }
  body.compute(op.name + ".input_grad",
               flash_task(b, op, ComputeOp::attention_grad, attention_sizes(b, inputs[0], inputs[1], inputs[2])),
               operands, Phase::input_grad);
  for (std::size_t i = 0; i < grads.size(); ++i) b.add_grad(op.inputs[i], grads[i], op.name);
}

// ---- all-gather

int gathered(BlockBody& b, const OpSpec& op, std::size_t i) {
  return b.value(op.inputs[i], with_axis(b.stored(op.inputs[i]), Axis::cp, Replicate{}), op.name);
}

/// A query's keys are on average half of the sequence, on every rank; a causal block of s_q queries that sees as many
/// has s/2 + s_q/2 keys.
ComputeTask gathered_task(BlockBody& b, const OpSpec& op, ComputeOp kind, AttentionSizes z) {
  ExprPool& e = b.builder().frame().program.exprs;
  const int ranks = ranks_along(b, Axis::cp);
  if (op.causal) z.k = e.apply(ExprOp::div, e.apply(ExprOp::add, z.k, z.q), e.constant(2));
  ComputeTask t = flash_task(b, op, kind, z);
  if (op.causal) t.scalars.push_back(2.0 * ranks / (ranks + 1.0));
  return t;
}

void gather_forward(BlockBody& b, const OpSpec& op) {
  const int q = b.value(op.inputs[0]), k = gathered(b, op, 1), v = gathered(b, op, 2);
  const int out = b.result(op.outputs[0], b.stored(op.outputs[0])), lse = log_sum_exp(b, op, q);
  b.builder().compute(op.name, gathered_task(b, op, ComputeOp::attention, attention_sizes(b, q, k, v)),
                      {read(q), read(k), read(v), write(out), write(lse)}, b.phase());
}

void gather_backward(BlockBody& b, const OpSpec& op) {
  const int dout = b.grad(op.outputs[0], gradient_layout(b.stored(op.outputs[0])), op.name);
  if (dout < 0) return;
  BodyBuilder& body = b.builder();
  const int q = b.value(op.inputs[0]), k = gathered(b, op, 1), v = gathered(b, op, 2);
  const int dq = b.scratch_like(name_in(op, "q_grad"), q, body.tensor(q).layout);
  std::array<int, 2> dkv{};
  for (std::size_t i = 0; i < dkv.size(); ++i)
    dkv[i] =
        b.scratch_like(name_in(op, "kv_grad"), i == 0 ? k : v, with_axis(body.tensor(k).layout, Axis::cp, Partial{}));
  body.compute(op.name + ".input_grad", gathered_task(b, op, ComputeOp::attention_grad, attention_sizes(b, q, k, v)),
               {read(dout), read(q), read(k), read(v), read(b.value(op.outputs[0])),
                read(b.extra(name_in(op, "log_sum_exp"))), write(dq), write(dkv[0]), write(dkv[1])},
               Phase::input_grad);
  b.add_grad(op.inputs[0], dq, op.name);
  b.add_grad(op.inputs[1], dkv[0], op.name);
  b.add_grad(op.inputs[2], dkv[1], op.name);
}

}  // namespace

void context_forward(BlockBody& b, const OpSpec& op) {
  switch (b.options().context) {
    case ContextExchange::ring: return ring_forward(b, op);
    case ContextExchange::ulysses: return ulysses_forward(b, op);
    case ContextExchange::allgather: return gather_forward(b, op);
  }
}

void context_backward(BlockBody& b, const OpSpec& op) {
  switch (b.options().context) {
    case ContextExchange::ring: return ring_backward(b, op);
    case ContextExchange::ulysses: return ulysses_backward(b, op);
    case ContextExchange::allgather: return gather_backward(b, op);
  }
}

std::vector<int> context_saved(const OpSpec& op, const BlockOptions& options) {
  switch (options.context) {
    case ContextExchange::ring: return {op.inputs[0], op.outputs[0]};
    case ContextExchange::ulysses: return {};
    case ContextExchange::allgather: break;
  }
  std::vector<int> out = op.inputs;
  out.push_back(op.outputs[0]);
  return out;
}

}  // namespace rehearse::ops
