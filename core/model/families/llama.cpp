// Llama and its likes: rotary embedding, RMSNorm, gated SiLU MLP, grouped key/value heads (Touvron et al. 2023, Dubey
// et al. 2024). Mistral and Qwen2 differ in what they allow, not in structure.

#include "core/config/object_reader.hpp"
#include "core/model/architecture.hpp"
#include "core/model/families/decoder.hpp"
#include "core/model/families/llama_keys.hpp"

namespace rehearse {

TransformerConfig read_decoder_sizes(ObjectReader& in, std::int64_t layers) {
  TransformerConfig c;
  c.layers = layers > 0 ? in.integer("num_hidden_layers", {1, kMaxLayers}, layers)
                        : in.integer("num_hidden_layers", {1, kMaxLayers});
  c.hidden = in.integer("hidden_size", {1, kMaxWidth});
  c.heads = in.integer("num_attention_heads", {1, kMaxWidth});
  c.kv_heads = in.integer("num_key_value_heads", {1, kMaxWidth}, c.heads);
  c.head_dim = in.has("head_dim") ? in.integer("head_dim", {1, kMaxWidth})
                                  : per_head(in, "hidden_size", c.hidden, "num_attention_heads", c.heads);
  c.ffn = in.integer("intermediate_size", {1, kMaxWidth});
  c.vocabulary = in.integer("vocab_size", {1, kMaxVocabulary});
  c.max_positions = in.integer("max_position_embeddings", {1, kMaxPositions});
  c.rope_theta = read_rope_theta(in, "rope_theta");
  c.tied = in.boolean("tie_word_embeddings", false);
  c.attention_dropout = in.number("attention_dropout", kDropout, 0.0);
  c.init_std = c.residual_init_std = in.number("initializer_range", {0.0, 10.0}, 0.02);
  c.merged_projections = in.boolean("merged_projections", true);
  return c;
}

TransformerConfig read_llama_sizes(ObjectReader& in) {
  static const std::vector<std::string> kActivations{"silu"};
  TransformerConfig c = read_decoder_sizes(in);
  c.norm = OpKind::rms_norm;
  c.norm_eps = in.number("rms_norm_eps", {0.0, 1.0}, 1e-6);
  c.rotary_dim = c.head_dim;
  in.choice("hidden_act", kActivations, "silu");
  return c;
}

void read_window(TransformerConfig& c, ObjectReader& in) {
  c.window = in.integer("sliding_window", {1, kMaxPositions}, kMaxPositions);
  if (c.window >= c.max_positions) c.window = 0;
}

std::vector<ParameterHelp> decoder_keys(std::initializer_list<ParameterHelp> own) {
  std::vector<ParameterHelp> all{
      {"hidden_size", "hidden size", "required"},
      {"num_hidden_layers", "layers", "required"},
      {"num_attention_heads", "query heads", "required"},
      {"num_key_value_heads", "key and value heads", "num_attention_heads"},
      {"head_dim", "size of a head", "hidden_size / num_attention_heads"},
      {"intermediate_size", "inner size of the MLP", "required"},
      {"max_position_embeddings", "longest sequence", "required"},
      {"vocab_size", "rows of the word table", "required"},
      {"rope_theta", "base of the rotary angles", "10000"},
      {"attention_dropout", "dropout of attention probabilities", "0"},
      {"initializer_range", "standard deviation of initial weights", "0.02"},
      {"merged_projections", "q, k and v in one product, gate and up in another; no key of Hugging Face", "true"},
      {"tie_word_embeddings", "output projection shares the word table", "false"}};
  all.insert(all.end(), own);
  return all;
}

std::vector<ParameterHelp> llama_keys(std::initializer_list<ParameterHelp> own) {
  std::vector<ParameterHelp> all = decoder_keys({{"rms_norm_eps", "added to the mean square", "1e-6"}});
  all.insert(all.end(), own);
  return all;
}

namespace {

TransformerConfig read_llama(ObjectReader& in) {
  TransformerConfig c = read_llama_sizes(in);
  c.qkv_bias = c.attention_output_bias = in.boolean("attention_bias", false);
  c.mlp_bias = in.boolean("mlp_bias", false);
  return c;
}

TransformerConfig read_mistral(ObjectReader& in) {
  TransformerConfig c = read_llama_sizes(in);
  read_window(c, in);
  return c;
}

TransformerConfig read_qwen3(ObjectReader& in) {
  TransformerConfig c = read_llama_sizes(in);
  c.qk_norm = true;
  c.qkv_bias = c.attention_output_bias = in.boolean("attention_bias", false);
  in.expect("sliding_window");
  if (in.boolean("use_sliding_window", false)) read_window(c, in);
  return c;
}

/// Sizes and options as Llama's; the checkpoints hold q, k and v, and gate and up, as one matrix each, which changes no
/// size.
TransformerConfig read_phi3(ObjectReader& in) {
  TransformerConfig c = read_llama_sizes(in);
  c.rotary_dim = read_rotary_dim(in, "partial_rotary_factor", 1.0, c.head_dim);
  c.hidden_dropout = in.number("resid_pdrop", kDropout, 0.0);
  c.embedding_dropout = in.number("embd_pdrop", kDropout, 0.0);
  read_window(c, in);
  return c;
}

TransformerConfig read_qwen2(ObjectReader& in) {
  TransformerConfig c = read_llama_sizes(in);
  c.qkv_bias = true;
  in.expect("attention_bias");
  in.expect("sliding_window");
  if (in.boolean("use_sliding_window", false)) read_window(c, in);
  return c;
}

Network build_llama(const TransformerConfig& c) { return decoder_network(c, sequential_layer(c, gated_branch)); }

[[maybe_unused]] const bool kLlama = architectures().add({
    "llama",
    "Llama 1 to 3: rotary embedding, RMSNorm, gated SiLU, grouped key/value heads",
    llama_keys({{"attention_bias", "biases in the attention projections", "false"},
                {"mlp_bias", "biases in the MLP", "false"}}),
    decoder_architecture(read_llama, build_llama),
});
[[maybe_unused]] const bool kMistral = architectures().add({
    "mistral",
    "Mistral 7B: the Llama layer, attention to a window in the first version",
    llama_keys({{"sliding_window", "tokens that a token attends to", "none"}}),
    decoder_architecture(read_mistral, build_llama),
});
[[maybe_unused]] const bool kQwen2 = architectures().add({
    "qwen2",
    "Qwen2, Qwen2.5: the Llama layer with biases on q, k and v",
    llama_keys({{"use_sliding_window", "whether sliding_window counts", "false"},
                {"sliding_window", "tokens that a token attends to", "none"}}),
    decoder_architecture(read_qwen2, build_llama),
});

[[maybe_unused]] const bool kPhi3 = architectures().add({
    "phi3",
    "Phi-3, Phi-4: the Llama layer, rotary embedding on part of each head, dropout on the branches",
    llama_keys({{"partial_rotary_factor", "fraction of each head that rotary embedding turns", "1"},
                {"resid_pdrop", "dropout on each branch", "0"},
                {"embd_pdrop", "dropout after the embedding", "0"},
                {"sliding_window", "tokens that a token attends to", "none"}}),
    decoder_architecture(read_phi3, build_llama),
});

[[maybe_unused]] const bool kQwen3 = architectures().add({
    "qwen3",
    "Qwen3: the Llama layer with normalised queries and keys",
    llama_keys({{"attention_bias", "biases in the attention projections", "false"},
                {"use_sliding_window", "whether sliding_window counts", "false"},
                {"sliding_window", "tokens that a token attends to", "none"}}),
    decoder_architecture(read_qwen3, build_llama),
});

}  // namespace
}  // namespace rehearse
