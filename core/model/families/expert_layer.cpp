// Layers with experts, latent attention and the prediction of further tokens: the parts of mixture-of-experts
// transformers.

#include <fmt/format.h>

#include <utility>

#include "core/model/families/decoder.hpp"

namespace rehearse {
namespace {

Shape hidden(std::int64_t size) { return {{DimTag::hidden, size}}; }

int shared_experts(BlockBuilder& block, const TransformerConfig& c, int x) {
  const BlockBuilder::PartScope part(block, LayerPart::shared_experts);
  const Shape ffn{{DimTag::ffn, c.experts.shared_ffn}};
  if (c.experts.squared_relu) {
    x = block.squared_relu("moe.shared.squared_relu", block.linear("moe.shared.up", x, ffn, {.init_std = c.init_std}));
    return block.linear("moe.shared.down", x, hidden(c.hidden), {.init_std = c.residual_init_std});
  }
  const auto gate_up = block.linear("moe.shared.gate_up", x, {{"moe.shared.gate", ffn}, {"moe.shared.up", ffn}},
                                    {.init_std = c.init_std});
  x = block.silu_mul("moe.shared.silu_mul", gate_up[0], gate_up[1]);
  return block.linear("moe.shared.down", x, hidden(c.hidden), {.init_std = c.residual_init_std});
}

/// First product and activation of every row's expert.
int expert_inner(BlockBuilder& block, const ExpertLayers& e, BlockBuilder::Routed sent, const LinearOptions& options) {
  const Dim ffn{DimTag::expert_ffn, e.ffn};
  if (e.squared_relu)
    return block.weighted_squared_relu(
        "moe.squared_relu",
        block.grouped_linear("moe.up", sent.rows, e.routing.experts, ffn, {"moe.up"}, options).front(), sent.weights);
  const auto gate_up =
      block.grouped_linear("moe.gate_up", sent.rows, e.routing.experts, ffn, {"moe.gate", "moe.up"}, options);
  return block.weighted_silu_mul("moe.silu_mul", gate_up[0], gate_up[1], sent.weights, e.limit);
}

/// Queries [b,s,a,nope + rope].
int latent_queries(BlockBuilder& block, const TransformerConfig& c, int x) {
  const LatentAttention& l = c.latent;
  if (l.q_rank > 0) {
    x = block.linear("attention.q_down", x, hidden(l.q_rank), {.init_std = c.init_std});
    const BlockBuilder::PartScope part(block, LayerPart::latent_projection);
    x = block.norm(c.norm, "attention.q_norm", x, c.norm_eps);
  }
  const BlockBuilder::PartScope part(block, LayerPart::latent_projection);
  x = block.linear("attention.q_up", x, {{DimTag::heads, c.heads}, {DimTag::head_dim, l.nope + l.rope}},
                   {.init_std = c.init_std});
  return block.rope("attention.rope_q", x, l.rope, c.rope_theta);
}

struct LatentKeys {
  int keys, values;
};

/// Keys [b,s,a,nope + rope] and values [b,s,a,v] of the latent vectors and of the part of a key that turns.
LatentKeys latent_keys(BlockBuilder& block, const TransformerConfig& c, int latent, int turning) {
  const BlockBuilder::PartScope part(block, LayerPart::latent_projection);
  const LatentAttention& l = c.latent;
  const Dim heads{DimTag::heads, c.heads};
  latent = block.norm(c.norm, "attention.kv_norm", latent, c.norm_eps);
  const auto up = block.linear(
      "attention.kv_up", latent,
      {{"attention.k_nope", {heads, {DimTag::head_dim, l.nope}}}, {"attention.v", {heads, {DimTag::head_dim, l.v}}}},
      {.init_std = c.init_std});
  const int turned = block.rope("attention.rope_k", turning, l.rope, c.rope_theta);
  return {block.append("attention.k", up[0], turned), up[1]};
}

}  // namespace

int latent_attention_branch(BlockBuilder& block, const TransformerConfig& c, int x) {
  const BlockBuilder::PartScope part(block, LayerPart::attention);
  const LatentAttention& l = c.latent;
  const int q = latent_queries(block, c, x);
  const auto down = block.linear("attention.kv_down", x,
                                 {{"attention.latent", hidden(l.kv_rank)}, {"attention.k_rope", hidden(l.rope)}},
                                 {.init_std = c.init_std});
  const LatentKeys kv = latent_keys(block, c, down[0], down[1]);
  x = block.attention("attention.core", q, kv.keys, kv.values, c.attention_dropout,
                      {.causal = c.causal, .window = c.window});
  return block.linear("attention.proj", x, hidden(c.hidden),
                      {.init_std = c.residual_init_std, .projection = Projection::attention_output});
}

int expert_branch(BlockBuilder& block, const TransformerConfig& c, int x) {
  const BlockBuilder::PartScope part(block, LayerPart::experts);
  const ExpertLayers& e = c.experts;
  const LinearOptions in{.bias = e.bias, .init_std = c.init_std}, out{.bias = e.bias, .init_std = c.residual_init_std};
  const int weights = block.router("moe.router", x, e.routing, in);
  const int token = e.latent > 0 ? block.linear("moe.latent_down", x, hidden(e.latent), {.init_std = c.init_std}) : x;
  const BlockBuilder::Routed sent = block.dispatch("moe.dispatch", token, weights);
  const int shared = e.shared_ffn > 0 ? shared_experts(block, c, x) : -1;
  const int inner = expert_inner(block, e, sent, in);
  const auto down =
      block.grouped_linear("moe.down", inner, e.routing.experts, {DimTag::hidden, e.latent > 0 ? e.latent : c.hidden},
                           {"moe.down"}, out, sent.weights);
  int routed = block.combine("moe.combine", down[0], weights);
  if (e.latent > 0) routed = block.linear("moe.latent_up", routed, hidden(c.hidden), {.init_std = c.residual_init_std});
  return shared < 0 ? routed : block.add("moe.add", routed, shared);
}

void add_prediction(BlockBuilder& block, const TransformerConfig& c, int x, int number) {
  block.within(fmt::format("mtp{}.", number));
  const int next =
      block.embedding("word", block.integers("tokens"), c.vocabulary, c.hidden, c.init_std, "embedding.word.weight");
  const int from_token = block.norm(c.norm, "norm_token", next, c.norm_eps);
  const int from_hidden = block.norm(c.norm, "norm_hidden", x, c.norm_eps);
  // One product with both, side by side, is the sum of two.
  const LinearOptions init{.init_std = c.init_std};
  x = block.add("join", block.linear("project_hidden", from_hidden, hidden(c.hidden), init),
                block.linear("project_token", from_token, hidden(c.hidden), init));
  x = add_layer(block, c, x, c.experts.routing.experts > 0 ? expert_branch : gated_branch);
  x = block.norm(c.norm, "norm", x, c.norm_eps);
  const int logits =
      block.linear("logits", x, {{DimTag::vocabulary, c.vocabulary}},
                   {.init_std = c.init_std, .tied_to = c.tied ? "embedding.word.weight" : "head.logits.weight"});
  block.cross_entropy("loss", logits, block.integers("labels"));
  block.within({});
}

Network expert_network(const TransformerConfig& c) {
  Network network = decoder_network(c, sequential_layer(c, expert_branch));
  const std::int64_t dense = c.experts.dense_layers;
  if (dense == 0) return network;
  network.blocks.insert(network.blocks.begin() + 1, sequential_layer(c, gated_branch, "dense_layer"));
  network.repeat = {1, static_cast<int>(dense), static_cast<int>(c.layers - dense), 1};
  return network;
}

Network alternating_network(const TransformerConfig& c) {
  TransformerConfig full = c;
  full.window = 0;
  Network network = decoder_network(c, sequential_layer(full, expert_branch));
  if (c.window == 0) return network;
  network.blocks.insert(network.blocks.begin() + 1, sequential_layer(c, expert_branch, "window_layer"));
  const int layers = static_cast<int>(c.layers);
  network.repeat = {1, (layers + 1) / 2, layers / 2, 1};
  network.alternating = true;
  return network;
}

}  // namespace rehearse
