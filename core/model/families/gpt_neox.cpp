// GPT-NeoX: rotary embedding on part of each head, attention and MLP side by side (Black et al. 2022).

#include <utility>

#include "core/config/object_reader.hpp"
#include "core/model/architecture.hpp"
#include "core/model/families/decoder.hpp"

namespace rehearse {
namespace {

TransformerConfig read_gpt_neox(ObjectReader& in) {
  TransformerConfig c;
  c.layers = in.integer("num_hidden_layers", {1, kMaxLayers});
  c.hidden = in.integer("hidden_size", {1, kMaxWidth});
  c.heads = c.kv_heads = in.integer("num_attention_heads", {1, kMaxWidth});
  c.head_dim = per_head(in, "hidden_size", c.hidden, "num_attention_heads", c.heads);
  c.ffn = in.integer("intermediate_size", {1, kMaxWidth});
  c.vocabulary = in.integer("vocab_size", {1, kMaxVocabulary});
  c.max_positions = in.integer("max_position_embeddings", {1, kMaxPositions});
  c.norm_eps = in.number("layer_norm_eps", {0.0, 1.0}, 1e-5);
  c.rotary_dim = read_rotary_dim(in, "rotary_pct", 0.25, c.head_dim);
  c.rope_theta = read_rope_theta(in, "rotary_emb_base");
  c.qkv_bias = c.attention_output_bias = in.boolean("attention_bias", true);
  c.mlp_bias = true;
  c.tanh_gelu = read_tanh_gelu(in, "hidden_act", "gelu");
  c.parallel_residual = in.boolean("use_parallel_residual", true);
  c.tied = in.boolean("tie_word_embeddings", false);
  c.attention_dropout = in.number("attention_dropout", kDropout, 0.0);
  c.embedding_dropout = c.hidden_dropout = in.number("hidden_dropout", kDropout, 0.0);
  c.init_std = c.residual_init_std = in.number("initializer_range", {0.0, 10.0}, 0.02);
  return c;
}

/// The branches are added to each other before the residual, so that tensor parallelism reduces both at once.
BlockSpec parallel_layer(const TransformerConfig& c) {
  BlockBuilder block("layer", BlockKind::layer);
  const int x = block.input({{DimTag::hidden, c.hidden}});
  const int attention = attention_branch(block, c, block.norm(c.norm, "ln1", x, c.norm_eps));
  const int mlp = gelu_branch(block, c, block.norm(c.norm, "ln2", x, c.norm_eps));
  const int y = block.add("residual.add", x, block.add("branches.add", attention, mlp));
  return std::move(block).finish(y);
}

Network build_gpt_neox(const TransformerConfig& c) {
  return decoder_network(c, c.parallel_residual ? parallel_layer(c) : sequential_layer(c, gelu_branch));
}

[[maybe_unused]] const bool kGptNeoxRegistered = architectures().add({
    "gpt_neox",
    "GPT-NeoX, Pythia: partial rotary embedding, LayerNorm, GELU, parallel residual",
    {{"hidden_size", "hidden size", "required"},
     {"num_hidden_layers", "layers", "required"},
     {"num_attention_heads", "attention heads", "required"},
     {"intermediate_size", "inner size of the MLP", "required"},
     {"max_position_embeddings", "longest sequence", "required"},
     {"vocab_size", "rows of the word table", "required"},
     {"rotary_pct", "fraction of each head that rotary embedding turns", "0.25"},
     {"rotary_emb_base", "base of the rotary angles", "10000"},
     {"use_parallel_residual", "attention and MLP from the same input", "true"},
     {"attention_bias", "biases in the attention projections", "true"},
     {"hidden_act", "gelu, or its tanh approximation gelu_fast", "gelu"},
     {"layer_norm_eps", "added to the variance", "1e-5"},
     {"attention_dropout", "dropout of attention probabilities", "0"},
     {"hidden_dropout", "dropout after the embedding and each branch", "0"},
     {"initializer_range", "standard deviation of initial weights", "0.02"},
     {"tie_word_embeddings", "output projection shares the word table", "false"}},
    decoder_architecture(read_gpt_neox, build_gpt_neox),
});

}  // namespace
}  // namespace rehearse
