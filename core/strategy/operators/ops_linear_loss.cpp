// The output product and the loss as one. On the chip: a kernel makes tiles of logits, takes from each what the loss
// needs, and drops it; backward makes them again (Wijmans et al. 2024, "Cut Your Losses in Large-Vocabulary Language
// Models"; apple/ml-cross-entropy @d42911f, cce.py and cce_backward.py). In chunks: tokens are taken some at a time,
// and forward goes on to the gradients before it drops a chunk's logits, so that nothing runs twice
// (linkedin/Liger-Kernel @ead96b6, ops/fused_linear_cross_entropy.py; pytorch/torchtitan @4f9e9a4,
// components/loss.py, ChunkedLossWrapper).

#include "core/strategy/operators/linear_loss.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/config/setting_key.hpp"
#include "core/strategy/operators/ops_linear.hpp"

namespace rehearse::ops {

namespace {

const SettingKey<std::string> kLinearLoss = declare_key(
    "framework.linear_loss", std::string("stored"), "Where logits are between the output product and the loss.",
    {.choices = {"stored", "on_chip", "chunks"},
     .detail = "stored: in memory, for all tokens of a microbatch. on_chip: in no memory; one kernel makes them and "
               "takes the loss, and backward makes them again (Cut Cross Entropy). chunks: for some tokens at a time, "
               "of which forward takes the gradients, too; those of the weight and of the hidden values wait for "
               "backward (Liger, torchtitan's chunked loss). The loss of a chunk follows kernels.fused_cross_entropy "
               "and framework.loss. Without effect on losses of images and on products with a bias."});

const SettingKey<std::int64_t> kLossChunks = declare_key(
    "framework.loss_chunks", std::int64_t{0}, "Chunks of framework.linear_loss.",
    {.least = 0,
     .most = 4096,
     .detail = "0: as many as Liger takes: the vocabulary over the hidden size, with chunks of a power of two tokens, "
               "so that logits of a chunk are about as large as the hidden values of all.",
     .example = "8"});

/// A chunk of one rank's tokens: whole samples, or tokens of one.
struct Chunk {
  std::int64_t first = 0;  ///< Of all tokens of the rank, sample by sample.
  std::int64_t samples = 0, tokens = 0;
};

/// At most `most` tokens each.
std::vector<Chunk> chunks_of(std::int64_t samples, std::int64_t tokens, std::int64_t most) {
  std::vector<Chunk> out;
  const std::int64_t together = std::max<std::int64_t>(1, most / tokens), run = std::min(most, tokens);
  for (std::int64_t s = 0; s < samples; s += together)
    for (std::int64_t t = 0; t < tokens; t += run)
      out.push_back({s * tokens + t, std::min(together, samples - s), std::min(run, tokens - t)});
  return out;
}

std::optional<std::int64_t> constant_of(BlockBody& b, ExprId e) {
  const ExprPool& pool = b.builder().frame().program.exprs;
  if (!pool.is_constant(e)) return std::nullopt;
  return pool.evaluate(e, {});
}

/// Chunks of the tokens of `x` [samples, tokens, hidden]. One where ranks have unequal shares of them.
std::vector<Chunk> chunks_for(BlockBody& b, int x, int weight) {
  BodyBuilder& body = b.builder();
  const auto samples = constant_of(b, body.dim(x, 0)), tokens = constant_of(b, body.dim(x, 1)),
             hidden = constant_of(b, body.dim(x, 2)), words = constant_of(b, body.dim(weight, 0));
  if (!samples || !tokens || !hidden || !words) return {Chunk{}};
  const auto over = [](std::int64_t a, std::int64_t n) { return (a + n - 1) / n; };
  const std::int64_t all = *samples * *tokens, wanted = kLossChunks(b.options().kernels);
  const auto power = [](std::int64_t n) {
    return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(n)));
  };
  const std::int64_t most = wanted > 0 ? over(all, wanted) : power(over(all, over(*words, *hidden)));
  std::vector<Chunk> out = chunks_of(*samples, *tokens, std::max<std::int64_t>(1, most));
  return out.size() > 1 ? out : std::vector<Chunk>{Chunk{}};
}

/// The tensor cut down to a chunk, as the rank holds it: `like` has samples and tokens as its first dimensions.
Tensor cut(BlockBody& b, Tensor like, const Chunk& chunk) {
  ProgramFrame& f = b.builder().frame();
  like.lifetime = Lifetime::scratch;
  like.per_layer = like.per_microbatch = false;
  if (chunk.samples == 0) return like;
  std::array<std::int64_t, 2> ranks{1, 1};
  for (auto& [axis, l] : like.layout) {
    auto* shard = std::get_if<Shard>(&l);
    if (shard == nullptr || shard->flat || shard->dim > 1) continue;
    nth(ranks, shard->dim) *= ranks_along(b, axis);
    l = shard_on(shard->dim);
  }
  like.shape[0] = f.constant(chunk.samples * ranks[0]);
  like.shape[1] = f.constant(chunk.tokens * ranks[1]);
  return like;
}

/// The chunk's part of `whole`.
int chunk_view(BlockBody& b, int whole, const Chunk& chunk, std::size_t number) {
  BodyBuilder& body = b.builder();
  if (chunk.samples == 0) return whole;
  Tensor t = cut(b, body.tensor(whole), chunk);
  const ExprId width = body.frame().local_product(t, 2, static_cast<int>(t.shape.size()));
  t.name = fmt::format("{}.chunk{}", t.name, number);
  t.role = TensorRole::general;
  t.alias_of = body.tensor_id(whole);
  t.alias_dim = -1;
  t.alias_offset = body.frame().mul(body.frame().constant(chunk.first), width);
  const std::string name = t.name;
  return body.view(name, whole, body.frame().add_tensor(std::move(t)));
}

/// The product whose logits the loss reads.
const OpSpec& product_of(const BlockBody& b, const OpSpec& loss) {
  const std::vector<OpSpec>& ops = b.tensors().spec->ops;
  return *std::find_if(ops.begin(), ops.end(), [&](const OpSpec& op) {
    return op.kind == OpKind::linear && op.joins_loss && op.outputs[0] == loss.inputs[0];
  });
}

const char* const kHiddenGradient = "hidden_grad";
const char* const kWeightGradient = "weight_grad";

/// What waits for backward.
struct Gradients {
  int hidden = -1, weight = -1;
};

Gradients gradients_of(BlockBody& b, const OpSpec& product, int x) {
  Gradients out;
  const Tensor hidden = b.builder().tensor(x);
  const bool column = is_shard(b.param_layout(product.params[0]), Axis::tp, 0);
  out.hidden = b.extra(name_in(product, kHiddenGradient), hidden.shape, hidden.dtype,
                       column ? with_axis(hidden.layout, Axis::tp, Partial{}) : hidden.layout, true);
  if (product.frozen) return out;
  const Tensor sum = nth(b.builder().frame().program.tensors, nth(b.tensors().grad, product.params[0]));
  out.weight =
      b.extra(name_in(product, kWeightGradient), sum.shape, b.builder().frame().activation_dtype, sum.layout, true);
  return out;
}

/// The chunk's term of the weight's gradient.
void add_term(BlockBody& b, const OpSpec& product, int x, int dlogits, int sum, bool first) {
  BodyBuilder& body = b.builder();
  const bool adds = !first && !b.options().adds_pieces, apart = !first && !adds;
  const int to = apart ? b.scratch_like(product.name + ".grad_piece", sum, body.tensor(sum).dtype) : sum;
  ComputeTask t = weight_product(b, product, dlogits);
  t.accumulates = adds;
  t.accumulate = body.tensor(sum).dtype;
  body.compute(product.name + ".weight_grad", t, {read(x), adds ? update(to) : write(to), read(dlogits)},
               Phase::weight_grad);
  if (!apart) return;
  ComputeTask add = pass(ComputeOp::add);
  add.accumulates = true;
  body.compute(product.name + ".grad_sum", add, {read(to), update(sum)}, Phase::weight_grad);
}

}  // namespace

bool logits_on_chip(const OpSpec& op, const KernelSettings& kernels) {
  return op.joins_loss && kLinearLoss(kernels) == "on_chip";
}

bool logits_in_chunks(const OpSpec& op, const KernelSettings& kernels) {
  return op.joins_loss && kLinearLoss(kernels) == "chunks";
}

void forward_in_chunks(BlockBody& b, const OpSpec& op) {
  const OpSpec& product = product_of(b, op);
  BodyBuilder& body = b.builder();
  const int x = b.input_of_product(product.name, product.inputs[0], linear_input(b, product), product.name),
            w = b.param(product.params[0]), labels = b.value(op.inputs[1]);
  const Tensor logits = nth(body.frame().program.tensors, nth(b.tensors().value, op.inputs[0]));
  const Gradients sums = gradients_of(b, product, x);
  const ExprId tokens = mean_tokens(b, labels);
  const std::vector<Chunk> chunks = chunks_for(b, x, w);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const int part = chunk_view(b, x, chunks[i], i), truth = chunk_view(b, labels, chunks[i], i);
    const int made = body.scratch(product.name, body.frame().add_tensor(cut(b, logits, chunks[i])));
    forward_product(b, product, part, w, {made});
    const LossState state = loss_of_logits(b, op, made, truth, false);
    const int dlogits = gradient_of_logits(b, op, state, truth, tokens);
    input_product(b, product, w, {dlogits}, chunk_view(b, sums.hidden, chunks[i], i));
    if (sums.weight >= 0) add_term(b, product, part, dlogits, sums.weight, i == 0);
  }
}

void backward_in_chunks(BlockBody& b, const OpSpec& op) {
  const OpSpec& product = product_of(b, op);
  (void)b.value(op.inputs[1]);  // Labels are given back where backward would have read them.
  b.add_grad(product.inputs[0], b.extra(name_in(product, kHiddenGradient)), product.name);
  if (product.frozen) return;
  ComputeTask add = pass(ComputeOp::add);
  add.accumulates = true;
  b.builder().compute(product.name + ".grad_sum", add,
                      {read(b.extra(name_in(product, kWeightGradient))), update(b.grad_accumulator(product.params[0]))},
                      Phase::weight_grad);
}

}  // namespace rehearse::ops

namespace rehearse {

std::string linear_loss_gap(const KernelSettings& kernels) {
  return ops::kLinearLoss(kernels) == "on_chip" ? "no kernel keeps logits on the chip" : "";
}

}  // namespace rehearse
