// Nemotron: LayerNorm, squared ReLU without a gate, rotary embedding on part of each head, grouped key/value heads
// (Parmar et al. 2024).

#include "core/config/object_reader.hpp"
#include "core/model/architecture.hpp"
#include "core/model/families/decoder.hpp"
#include "core/model/families/llama_keys.hpp"

namespace rehearse {
namespace {

TransformerConfig read_nemotron(ObjectReader& in) {
  static const std::vector<std::string> kActivations{"relu2"};
  TransformerConfig c = read_decoder_sizes(in);
  c.norm = OpKind::layer_norm;
  c.norm_eps = in.number("norm_eps", {0.0, 1.0}, 1e-5);
  c.rotary_dim = read_rotary_dim(in, "partial_rotary_factor", 0.5, c.head_dim);
  c.qkv_bias = c.attention_output_bias = in.boolean("attention_bias", false);
  c.mlp_bias = in.boolean("mlp_bias", false);
  c.embedding_dropout = c.hidden_dropout = in.number("hidden_dropout", kDropout, 0.0);
  in.choice("hidden_act", kActivations, "relu2");
  return c;
}

Network build_nemotron(const TransformerConfig& c) {
  return decoder_network(c, sequential_layer(c, squared_relu_branch));
}

[[maybe_unused]] const bool kNemotronRegistered = architectures().add({
    "nemotron",
    "Nemotron, Minitron: LayerNorm, squared ReLU, partial rotary embedding, grouped key/value heads",
    decoder_keys({{"norm_eps", "added to the variance", "1e-5"},
                  {"partial_rotary_factor", "fraction of each head that rotary embedding turns", "0.5"},
                  {"hidden_act", "must be relu2", "relu2"},
                  {"hidden_dropout", "dropout after the embedding and each branch", "0"},
                  {"attention_bias", "biases in the attention projections", "false"},
                  {"mlp_bias", "biases in the MLP", "false"}}),
    decoder_architecture(read_nemotron, build_nemotron),
});

}  // namespace
}  // namespace rehearse
