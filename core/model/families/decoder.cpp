#include "core/model/families/decoder.hpp"

#include <utility>

namespace rehearse {
namespace {

Shape ffn(const TransformerConfig& c) { return {{DimTag::ffn, c.ffn}}; }

BlockSpec embedding_block(const TransformerConfig& c) {
  BlockBuilder block("embedding");
  int x = block.embedding("word", block.integers("tokens", SampleField::tokens), c.vocabulary, c.hidden, c.init_std);
  if (c.rotary_dim == 0 && c.positions)
    x = block.position_embedding("position", x, c.position_rows > 0 ? c.position_rows : c.max_positions, c.init_std);
  if (c.embedding_norm) x = block.norm(c.norm, "norm", x, c.norm_eps);
  x = block.dropout("dropout", x, c.embedding_dropout);
  return std::move(block).finish(x);
}

/// Modules after the first have its weights. All make theirs in one order, from parameter `first` on.
void share_prediction(BlockSpec& head, std::size_t first, std::size_t modules) {
  if (modules == 0) return;
  const std::size_t each = (head.params.size() - first) / modules;
  for (std::size_t p = first + each; p < head.params.size(); ++p)
    if (head.params[p].tied_to.empty())
      head.params[p].tied_to = head.name + "." + head.params[first + (p - first) % each].name;
}

BlockSpec head_block(const TransformerConfig& c) {
  BlockBuilder block("head");
  const int last = block.input(hidden_shape(c));
  const int x = block.norm(c.norm, "norm", last, c.norm_eps);
  const int logits =
      block.linear("logits", x, {{DimTag::vocabulary, c.vocabulary}},
                   {.bias = c.head_bias, .init_std = c.init_std, .tied_to = c.tied ? "embedding.word.weight" : ""});
  block.cross_entropy("loss", logits, block.integers("labels", SampleField::labels));
  const std::size_t own = block.param_count();
  for (int i = 1; i <= c.predict_further; ++i) add_prediction(block, c, last, i);
  BlockSpec head = std::move(block).finish(-1);
  if (c.one_prediction_module) share_prediction(head, own, static_cast<std::size_t>(c.predict_further));
  return head;
}

/// One product with several results, or one for each.
std::vector<int> projections(BlockBuilder& block, const TransformerConfig& c, const std::string& name, int x,
                             const std::vector<LinearPiece>& pieces, const LinearOptions& options) {
  if (c.merged_projections) return block.linear(name, x, pieces, options);
  std::vector<int> out;
  for (const LinearPiece& piece : pieces) out.push_back(block.linear(piece.name, x, piece.trailing, options));
  return out;
}

int expanded(BlockBuilder& block, const TransformerConfig& c, int x) {
  return block.linear("mlp.fc1", x, ffn(c),
                      {.bias = c.mlp_bias, .init_std = c.init_std, .projection = Projection::mlp_inner});
}

int contracted(BlockBuilder& block, const TransformerConfig& c, int x) {
  x = block.linear("mlp.fc2", x, hidden_shape(c),
                   {.bias = c.mlp_bias, .init_std = c.residual_init_std, .projection = Projection::mlp_output});
  return block.dropout("mlp.dropout", x, c.hidden_dropout);
}

}  // namespace

int attention_branch(BlockBuilder& block, const TransformerConfig& c, int x) {
  const BlockBuilder::PartScope part(block, LayerPart::attention);
  const Dim d{DimTag::head_dim, c.head_dim}, kv{DimTag::kv_heads, c.kv_heads};
  const auto qkv =
      projections(block, c, "attention.qkv", x,
                  {{"attention.q", {{DimTag::heads, c.heads}, d}}, {"attention.k", {kv, d}}, {"attention.v", {kv, d}}},
                  {.bias = c.qkv_bias, .init_std = c.init_std, .projection = Projection::qkv});
  int q = qkv[0], k = qkv[1];
  if (c.qk_norm_all) {
    q = block.grouped_rms_norm("attention.q_norm", q, c.heads, c.norm_eps);
    k = block.grouped_rms_norm("attention.k_norm", k, c.kv_heads, c.norm_eps);
  } else if (c.qk_norm) {
    q = block.norm(c.norm, "attention.q_norm", q, c.norm_eps);
    k = block.norm(c.norm, "attention.k_norm", k, c.norm_eps);
  }
  if (c.rotary_dim > 0) {
    q = block.rope("attention.rope_q", q, c.rotary_dim, c.rope_theta, c.rope_scaled);
    k = block.rope("attention.rope_k", k, c.rotary_dim, c.rope_theta, c.rope_scaled);
  }
  x = block.attention("attention.core", q, k, qkv[2], c.attention_dropout, {c.causal, c.window, c.sinks});
  x = block.linear(
      "attention.proj", x, hidden_shape(c),
      {.bias = c.attention_output_bias, .init_std = c.residual_init_std, .projection = Projection::attention_output});
  return block.dropout("attention.dropout", x, c.hidden_dropout);
}

int gelu_branch(BlockBuilder& block, const TransformerConfig& c, int x) {
  const BlockBuilder::PartScope part(block, LayerPart::mlp);
  return contracted(block, c, block.gelu("mlp.gelu", expanded(block, c, x), c.tanh_gelu));
}

int relu_branch(BlockBuilder& block, const TransformerConfig& c, int x) {
  const BlockBuilder::PartScope part(block, LayerPart::mlp);
  return contracted(block, c, block.unary(OpKind::relu, "mlp.relu", expanded(block, c, x)));
}

int squared_relu_branch(BlockBuilder& block, const TransformerConfig& c, int x) {
  const BlockBuilder::PartScope part(block, LayerPart::mlp);
  return contracted(block, c, block.squared_relu("mlp.squared_relu", expanded(block, c, x)));
}

int gated_branch(BlockBuilder& block, const TransformerConfig& c, int x) {
  const BlockBuilder::PartScope part(block, LayerPart::mlp);
  const auto gate_up = projections(block, c, "mlp.gate_up", x, {{"mlp.gate", ffn(c)}, {"mlp.up", ffn(c)}},
                                   {.bias = c.mlp_bias, .init_std = c.init_std, .projection = Projection::mlp_inner});
  x = block.silu_mul("mlp.silu_mul", gate_up[0], gate_up[1]);
  x = block.linear("mlp.down", x, hidden_shape(c),
                   {.bias = c.mlp_bias, .init_std = c.residual_init_std, .projection = Projection::mlp_output});
  return block.dropout("mlp.dropout", x, c.hidden_dropout);
}

int add_layer(BlockBuilder& block, const TransformerConfig& c, int x,
              int (*mlp)(BlockBuilder&, const TransformerConfig&, int)) {
  const auto attention = c.latent.kv_rank > 0 ? latent_attention_branch : attention_branch;
  x = block.add("attention.add", x, attention(block, c, block.norm(c.norm, "ln1", x, c.norm_eps)));
  return block.add("mlp.add", x, mlp(block, c, block.norm(c.norm, "ln2", x, c.norm_eps)));
}

BlockSpec sequential_layer(const TransformerConfig& c, int (*mlp)(BlockBuilder&, const TransformerConfig&, int),
                           const std::string& name) {
  BlockBuilder block(name, BlockKind::layer);
  const int x = add_layer(block, c, block.input(hidden_shape(c)), mlp);
  return std::move(block).finish(x);
}

Network decoder_network(const TransformerConfig& c, BlockSpec layer) {
  Network network;
  network.name = c.model_type;
  network.blocks = {embedding_block(c), std::move(layer), head_block(c)};
  network.repeat = {1, static_cast<int>(c.layers), 1};
  network.max_sequence_length = c.max_positions;
  network.simulated_only = c.simulated_only;
  network.notes = c.notes;
  return network;
}

}  // namespace rehearse
