#pragma once
// Hugging Face `config.json` of decoder-only transformers, brought to one set of names.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/object_reader.hpp"
#include "core/model/network.hpp"

namespace rehearse {

/// Latent attention (DeepSeek-V2, sec. 2.1): keys and values from a latent of `kv_rank` features per token, queries
/// from one of `q_rank`; the rotary part of a key is `rope` features that all heads share.
struct LatentAttention {
  std::int64_t q_rank = 0;   ///< 0: queries are projected directly.
  std::int64_t kv_rank = 0;  ///< 0: no latent attention.
  std::int64_t nope = 0;     ///< Features of a head's query and key that do not turn ...
  std::int64_t rope = 0;     ///< ... and that do.
  std::int64_t v = 0;        ///< Features of a head's value.
};

/// MLPs of which each token meets k, beside shared ones that all tokens meet.
struct ExpertLayers {
  Routing routing;                ///< `experts` 0: none.
  std::int64_t ffn = 0;           ///< Inner size of one expert.
  std::int64_t shared_ffn = 0;    ///< Inner size of the shared experts together; 0: none.
  std::int64_t dense_layers = 0;  ///< First layers that have a plain MLP of TransformerConfig::ffn.
  bool bias = false;              ///< Of router and experts.
  double limit = 0.0;             ///< OpSpec::limit of their activation.
  /// One product, its squared ReLU, one product, of routed and shared experts, instead of gated SiLU.
  bool squared_relu = false;
  /// Features that a token is projected to before it is sent to its experts, whose sum is projected back; 0: it is
  /// sent as it is. Router and shared experts see all of it.
  std::int64_t latent = 0;
};

/// Mamba-2 (Dao and Gu 2024, sec. 7): `heads` of `head_dim` features, each with a state of head_dim x `state`; b and c
/// are those of a group of heads.
struct StateSpace {
  std::int64_t heads = 0;     ///< a; 0: none.
  std::int64_t head_dim = 0;  ///< p
  std::int64_t groups = 1;    ///< g, divides `heads`.
  std::int64_t state = 0;     ///< n
  std::int64_t window = 4;    ///< k, tokens that the convolution reads.
  std::int64_t chunk = 128;   ///< Tokens that kernels work on at a time.
  bool bias = false;          ///< Of the projections; the convolution has one.
};

/// Where the branches of a layer join the residual stream.
enum class Residual : std::uint8_t {
  sequential,       ///< x + attention(norm(x)), then x + mlp(norm(x)).
  parallel,         ///< x + attention(norm(x)) + mlp(norm'(x)).
  parallel_shared,  ///< x + attention(y) + mlp(y) with y = norm(x).
  sandwiched,       ///< x + norm'(attention(norm(x))), then the MLP alike.
  after             ///< x + norm(attention(x)), then the MLP alike.
};

enum class Activation : std::uint8_t { gelu, gelu_tanh, relu, squared_relu, silu };

/// How a layer differs from others of its stack.
struct LayerVariant {
  bool windowed = false;  ///< It attends to TransformerConfig::window tokens.
  bool turned = true;     ///< It has the rotary embedding, where the stack has one.
  bool routed = false;    ///< It has experts in place of the MLP.
  auto operator<=>(const LayerVariant&) const = default;
};

/// Dimensions and options of a stack of decoder layers. Sizes are elements, all at least 1.
struct TransformerConfig {
  std::string model_type;     ///< As registered: "llama", "mixtral", "deepseek_v3", ...
  std::int64_t layers = 0;    ///< l
  std::int64_t hidden = 0;    ///< h
  std::int64_t heads = 0;     ///< a; query heads
  std::int64_t kv_heads = 0;  ///< Key and value heads; divides `heads`.
  std::int64_t head_dim = 0;  ///< d; h / a unless the file says otherwise.
  std::int64_t ffn = 0;       ///< Inner size of the MLP.
  /// V, as in the file: padding it to suit tensor parallelism is the strategy's business.
  std::int64_t vocabulary = 0;
  std::int64_t max_positions = 0;  ///< Longest sequence.

  OpKind norm = OpKind::layer_norm;  ///< layer_norm or rms_norm.
  double norm_eps = 1e-5;
  /// Elements of each head that rotary embedding turns; 0: learned positions, or none.
  std::int64_t rotary_dim = 0;
  bool positions = true;  ///< Tokens are told where they stand; a hybrid's state space tells them by itself.
  double rope_theta = 0.0;
  bool rope_scaled = false;  ///< OpSpec::scaled.
  bool qkv_bias = false;
  bool attention_output_bias = false;
  bool mlp_bias = false;
  /// q, k and v are one product, gate and up another (Megatron-LM, vLLM); else each its own (Hugging Face, torchtitan).
  bool merged_projections = true;
  bool tanh_gelu = false;          ///< For GELU MLPs: the tanh approximation.
  bool parallel_residual = false;  ///< x + attention(norm(x)) + mlp(norm(x)), instead of one after the other.
  bool tied = false;               ///< The output projection shares the word embedding.
  bool causal = true;              ///< A token sees only itself and those before it.
  bool qk_norm = false;            ///< Queries and keys are normalised per head.
  bool sinks = false;              ///< A learned score per head stands in the softmax beside the keys'.
  /// Tokens that layers attend to at most; 0: all layers see all.
  std::int64_t window = 0;
  bool alternating = false;  ///< Only every second layer, from the first on, attends to the window.
  LatentAttention latent;
  ExpertLayers experts;
  StateSpace state_space;
  /// Of a hybrid: a letter for each layer, M (Mamba-2), * (attention), - (MLP), E (experts); empty: layers are alike.
  std::string pattern;
  Residual residual = Residual::sequential;
  Activation activation = Activation::gelu;  ///< Of the MLP, or of its gate.
  bool gated = false;                        ///< The MLP has a gate.
  bool qk_norm_all = false;         ///< Queries and keys are normalised with a weight for each feature of each head.
  bool embedding_norm = false;      ///< Rows of the word table are normalised before the first layer.
  bool head_bias = false;           ///< The output projection has a bias.
  std::int64_t position_rows = 0;   ///< Of the table of learned positions; 0: max_positions.
  std::vector<LayerVariant> kinds;  ///< One for each layer; empty: they are alike, or as the fields above say.
  /// What no back end computes as the class does: parameters, FLOPs and memory are right, values are not.
  std::vector<std::string> simulated_only;
  std::vector<std::string> notes;      ///< What is left out of the network.
  bool has_words = true;               ///< Exports have words for all of it.
  std::int64_t predict_further = 0;    ///< Multi-token prediction modules after the last layer (DeepSeek-V3, sec. 2.2).
  bool one_prediction_module = false;  ///< They all have the weights of the first.

  double embedding_dropout = 0.0;  ///< Probabilities; 0 leaves the dropout op out.
  double attention_dropout = 0.0;
  double hidden_dropout = 0.0;      ///< On each branch, before its residual addition.
  double init_std = 0.02;           ///< Of weights and embeddings.
  double residual_init_std = 0.02;  ///< Of the projections that add to the residual stream.
};

/// Upper bounds on sizes. They are far above any model built and low enough that no count overflows.
inline constexpr std::int64_t kMaxLayers = 10'000;
inline constexpr std::int64_t kMaxWidth = std::int64_t{1} << 22;  ///< hidden, ffn, heads * head_dim
inline constexpr std::int64_t kMaxVocabulary = std::int64_t{1} << 28;
inline constexpr std::int64_t kMaxPositions = std::int64_t{1} << 28;
inline constexpr NumberRange kDropout{0.0, 0.99};
inline constexpr IntegerRange kExpertCount{1, 1 << 16};      ///< Of a layer, or of those that a token takes.
inline constexpr NumberRange kAuxLossCoefficient{0.0, 1e3};  ///< Of the loss that balances experts.

/// Reads a configuration whose architecture is a decoder stack and checks it. `origin` names the file in errors.
/// Unknown keys are ignored here: build_network() notes them. Throws Error (usage) as build_network() does.
[[nodiscard]] TransformerConfig parse_hf_config(const nlohmann::json& config, const std::string& origin);

/// The GELU named under `key`: "gelu" is exact; "gelu_new", "gelu_fast", "gelu_pytorch_tanh" are the tanh
/// approximation. Throws Error (usage) on any other.
[[nodiscard]] bool read_tanh_gelu(ObjectReader& in, const std::string& key, const std::string& fallback);

/// hidden / heads. Throws Error (usage) with the equation when it is not whole.
[[nodiscard]] std::int64_t per_head(const ObjectReader& in, std::string_view hidden_key, std::int64_t hidden,
                                    std::string_view heads_key, std::int64_t heads);
/// Elements of a head that turn: the fraction under `key` of head_dim, rounded down.
[[nodiscard]] std::int64_t read_rotary_dim(ObjectReader& in, const std::string& key, double fallback,
                                           std::int64_t head_dim);
/// Base of the rotary angles: `key`, or `rope_theta` in the object `rope_parameters`, or 10000. Scaling of the angles
/// for long contexts (`rope_scaling`) changes no shape and no cost and is not read.
[[nodiscard]] double read_rope_theta(ObjectReader& in, const std::string& key);

/// Experts, their sizes and their routing in DeepSeek's keys, which others took over: n_routed_experts,
/// num_experts_per_tok, n_group, topk_group, norm_topk_prob (else `normalise`), routed_scaling_factor, aux_loss_alpha,
/// moe_intermediate_size.
void read_routed_experts(ObjectReader& in, ExpertLayers& experts, bool normalise);

/// Throws Error (usage) unless kv_heads divides heads, experts divide into their groups and a token's choices fit the
/// groups it may use, the groups of a state space divide its heads, the rotary part is even and fits a head, and no
/// product is absurd.
void check(const TransformerConfig& config, const ObjectReader& in);

}  // namespace rehearse
