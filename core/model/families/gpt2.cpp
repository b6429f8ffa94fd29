// GPT-2 and GPT-3: learned positions, LayerNorm, GELU, biases everywhere, tied output (Radford et al. 2019; Brown et
// al. 2020).

#include <algorithm>
#include <cmath>

#include "core/config/object_reader.hpp"
#include "core/model/architecture.hpp"
#include "core/model/families/decoder.hpp"

namespace rehearse {
namespace {

TransformerConfig read_gpt2(ObjectReader& in) {
  TransformerConfig c;
  c.layers = in.integer("n_layer", {1, kMaxLayers});
  c.hidden = in.integer("n_embd", {1, kMaxWidth});
  c.heads = c.kv_heads = in.integer("n_head", {1, kMaxWidth});
  c.head_dim = per_head(in, "n_embd", c.hidden, "n_head", c.heads);
  c.ffn = in.integer("n_inner", {1, kMaxWidth}, std::min(4 * c.hidden, kMaxWidth));
  c.vocabulary = in.integer("vocab_size", {1, kMaxVocabulary});
  c.max_positions = in.integer("n_positions", {1, kMaxPositions});
  c.norm_eps = in.number("layer_norm_epsilon", {0.0, 1.0}, 1e-5);
  c.qkv_bias = c.attention_output_bias = c.mlp_bias = true;
  c.tanh_gelu = read_tanh_gelu(in, "activation_function", "gelu_new");
  c.tied = in.boolean("tie_word_embeddings", true);
  c.embedding_dropout = in.number("embd_pdrop", kDropout, 0.1);
  c.attention_dropout = in.number("attn_pdrop", kDropout, 0.1);
  c.hidden_dropout = in.number("resid_pdrop", kDropout, 0.1);
  c.init_std = in.number("initializer_range", {0.0, 10.0}, 0.02);
  c.residual_init_std = c.init_std / std::sqrt(2.0 * static_cast<double>(c.layers));
  for (const char* again : {"n_ctx", "scale_attn_weights"}) in.expect(again);
  if (in.boolean("add_cross_attention", false))
    in.fail("add_cross_attention", "a decoder-only model has no cross attention");
  return c;
}

Network build_gpt2(const TransformerConfig& c) { return decoder_network(c, sequential_layer(c, gelu_branch)); }

[[maybe_unused]] const bool kGpt2Registered = architectures().add({
    "gpt2",
    "GPT-2, GPT-3, Megatron GPT: learned positions, LayerNorm, GELU, biases",
    {{"n_embd", "hidden size", "required"},
     {"n_layer", "layers", "required"},
     {"n_head", "attention heads", "required"},
     {"n_inner", "inner size of the MLP", "4 * n_embd"},
     {"n_positions", "longest sequence, rows of the position table", "required"},
     {"vocab_size", "rows of the word table", "required"},
     {"activation_function", "gelu, or its tanh approximation gelu_new", "gelu_new"},
     {"layer_norm_epsilon", "added to the variance", "1e-5"},
     {"embd_pdrop", "dropout after the embeddings", "0.1"},
     {"attn_pdrop", "dropout of attention probabilities", "0.1"},
     {"resid_pdrop", "dropout before each residual addition", "0.1"},
     {"initializer_range", "standard deviation of initial weights", "0.02"},
     {"tie_word_embeddings", "output projection shares the word table", "true"}},
    decoder_architecture(read_gpt2, build_gpt2),
});

}  // namespace
}  // namespace rehearse
