// StarCoder2: LayerNorm, GELU, biases, rotary embedding, grouped key/value heads (Lozhkov et al. 2024).

#include "core/config/object_reader.hpp"
#include "core/model/architecture.hpp"
#include "core/model/families/decoder.hpp"
#include "core/model/families/llama_keys.hpp"

namespace rehearse {
namespace {

TransformerConfig read_starcoder2(ObjectReader& in) {
  TransformerConfig c = read_decoder_sizes(in);
  c.tied = in.boolean("tie_word_embeddings", true);  // As every class has it that doesn't say otherwise.
  c.norm = OpKind::layer_norm;
  c.norm_eps = in.number("norm_epsilon", {0.0, 1.0}, 1e-5);
  c.rotary_dim = c.head_dim;
  c.qkv_bias = c.attention_output_bias = c.mlp_bias = in.boolean("use_bias", true);
  c.tanh_gelu = read_tanh_gelu(in, "hidden_act", "gelu_pytorch_tanh");
  c.embedding_dropout = in.number("embedding_dropout", kDropout, 0.0);
  c.hidden_dropout = in.number("residual_dropout", kDropout, 0.0);
  read_window(c, in);
  return c;
}

Network build_starcoder2(const TransformerConfig& c) { return decoder_network(c, sequential_layer(c, gelu_branch)); }

[[maybe_unused]] const bool kStarcoder2Registered = architectures().add({
    "starcoder2",
    "StarCoder2: LayerNorm, GELU, biases, rotary embedding, grouped key/value heads",
    decoder_keys({{"norm_epsilon", "added to the variance", "1e-5"},
                  {"use_bias", "biases in all projections", "true"},
                  {"hidden_act", "gelu, or its tanh approximation gelu_pytorch_tanh", "gelu_pytorch_tanh"},
                  {"embedding_dropout", "dropout after the embedding", "0"},
                  {"residual_dropout", "dropout on each branch", "0"},
                  {"sliding_window", "tokens that a token attends to", "none"}}),
    decoder_architecture(read_starcoder2, build_starcoder2),
});

}  // namespace
}  // namespace rehearse
