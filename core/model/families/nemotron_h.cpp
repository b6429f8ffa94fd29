// Nemotron-H and Nemotron 3: a layer is one branch, a Mamba-2 mixer, attention without positions, a squared-ReLU MLP or
// experts, in the order of a pattern (NVIDIA 2025, arXiv 2504.03624 and 2512.20856). The correction bias of the
// experts' scores, which no gradient trains, is left out.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "core/config/object_reader.hpp"
#include "core/model/architecture.hpp"
#include "core/model/families/decoder.hpp"
#include "core/model/families/llama_keys.hpp"

namespace rehearse {
namespace {

constexpr IntegerRange kNemotronHSize{1, kMaxWidth};

/// Projection to gate, features, b, c and steps of every head; recurrence; norm of the gated result by groups;
/// projection back.
int mamba_branch(BlockBuilder& block, const TransformerConfig& c, int x) {
  const StateSpace& s = c.state_space;
  const Shape features{{DimTag::heads, s.heads}, {DimTag::head_dim, s.head_dim}},
      shared{{DimTag::kv_heads, s.groups}, {DimTag::head_dim, s.state}};
  const auto in = block.linear("mamba.in_proj", x,
                               {{"mamba.z", features},
                                {"mamba.x", features},
                                {"mamba.b", shared},
                                {"mamba.c", shared},
                                {"mamba.dt", {{DimTag::heads, s.heads}}}},
                               {.bias = s.bias, .init_std = c.init_std});
  x = block.state_space("mamba.core", {in[0], in[1], in[2], in[3], in[4]}, s.window, s.chunk);
  x = block.grouped_rms_norm("mamba.norm", x, s.groups, c.norm_eps);
  return block.linear("mamba.out_proj", x, {{DimTag::hidden, c.hidden}},
                      {.bias = s.bias, .init_std = c.residual_init_std});
}

/// A kind of layer: x + branch(norm(x)).
struct Kind {
  char letter;
  const char* name;
  const char* block;
  const char* add;
  int (*branch)(BlockBuilder&, const TransformerConfig&, int);
};
constexpr std::array<Kind, 4> kKinds{{{'M', "mamba", "mamba_layer", "mamba.add", mamba_branch},
                                      {'*', "attention", "attention_layer", "attention.add", attention_branch},
                                      {'-', "mlp", "mlp_layer", "mlp.add", squared_relu_branch},
                                      {'E', "moe", "expert_layer", "mlp.add", expert_branch}}};

BlockSpec layer(const TransformerConfig& c, const Kind& kind) {
  BlockBuilder block(kind.block, BlockKind::layer);
  const int x = block.input({{DimTag::hidden, c.hidden}});
  const int y = kind.branch(block, c, block.norm(c.norm, "norm", x, c.norm_eps));
  const int sum = block.add(kind.add, x, y);
  return std::move(block).finish(sum);
}

bool has(const std::string& pattern, char letter) { return pattern.find(letter) != std::string::npos; }

/// A letter for each name of a list, which newer files have in place of letters.
std::string letters_of(ObjectReader& in, const char* list) {
  std::string out;
  for (const std::string& name : in.strings(list)) {
    const auto at = std::find_if(kKinds.begin(), kKinds.end(), [&](const Kind& k) { return name == k.name; });
    if (at == kKinds.end())
      in.fail(list, fmt::format("a layer is '{}'", name), "layers are mamba, attention, mlp or moe");
    out += at->letter;
  }
  return out;
}

constexpr const char *kPattern = "hybrid_override_pattern", *kTypes = "layers_block_type";

void check_pattern(const TransformerConfig& c, const ObjectReader& in) {
  for (std::size_t i = 0; i < c.pattern.size(); ++i)
    if (std::none_of(kKinds.begin(), kKinds.end(), [&](const Kind& k) { return k.letter == c.pattern[i]; }))
      in.fail(kPattern, fmt::format("layer {} is '{}'", i, c.pattern[i]),
              "M is Mamba-2, * attention, - an MLP, E experts");
  if (static_cast<std::int64_t>(c.pattern.size()) != c.layers)
    in.fail(kPattern, fmt::format("{} letters for {} layers", c.pattern.size(), c.layers),
            "num_hidden_layers is the length of the pattern");
}

void read_state_space(TransformerConfig& c, ObjectReader& in) {
  StateSpace& s = c.state_space;
  s.heads = in.integer("mamba_num_heads", kNemotronHSize);
  s.head_dim = in.integer("mamba_head_dim", kNemotronHSize);
  s.groups = in.integer("n_groups", kNemotronHSize);
  s.state = in.integer("ssm_state_size", kNemotronHSize);
  s.window = in.integer("conv_kernel", {1, 1 << 10}, 4);
  s.chunk = in.integer("chunk_size", {1, 1 << 20}, 128);
  s.bias = in.boolean("use_bias", false);
  if (!in.boolean("use_conv_bias", true))
    in.fail("use_conv_bias", "the convolution has no bias", "it is built with one: set it to true");
}

void read_experts_nemotron_h(TransformerConfig& c, ObjectReader& in) {
  read_routed_experts(in, c.experts, true);
  c.experts.routing.sigmoid = true;
  c.experts.shared_ffn = in.integer("moe_shared_expert_intermediate_size", {0, kMaxWidth}, 0);
  c.experts.latent = in.integer("moe_latent_size", {0, kMaxWidth}, 0);
  c.experts.squared_relu = true;
}

/// A module is what add_prediction() builds: attention, then experts.
void read_prediction(TransformerConfig& c, ObjectReader& in) {
  c.predict_further = in.integer("num_nextn_predict_layers", {0, 16}, 0);
  c.one_prediction_module = in.boolean("mtp_use_repeated_layer", true);
  if (c.predict_further == 0) return;
  constexpr const char *kKey = "mtp_hybrid_override_pattern", *kList = "mtp_layers_block_type";
  if (const std::string layers = in.has(kList) ? letters_of(in, kList) : in.string(kKey); layers != "*E")
    in.fail(kKey, fmt::format("a prediction module of layers '{}'", layers),
            "modules of attention and experts are built: *E");
  if (c.experts.routing.experts == 0)
    in.fail("num_nextn_predict_layers", "a prediction module has experts, and the pattern has none", "set it to 0");
}

TransformerConfig read_nemotron_h(ObjectReader& in) {
  static const std::vector<std::string> kActivations{"relu2"};
  const std::string pattern = in.has(kTypes) ? letters_of(in, kTypes) : in.string(kPattern);
  TransformerConfig c = read_decoder_sizes(in, static_cast<std::int64_t>(pattern.size()));
  c.pattern = pattern;
  check_pattern(c, in);
  if (!in.has("head_dim")) c.head_dim = in.integer("attention_head_dim", kNemotronHSize, c.head_dim);
  c.norm = OpKind::rms_norm;
  c.norm_eps = in.number("layer_norm_epsilon", {0.0, 1.0}, in.number("norm_eps", {0.0, 1.0}, 1e-5));
  c.positions = false;
  c.qkv_bias = c.attention_output_bias = in.boolean("attention_bias", false);
  c.mlp_bias = in.boolean("mlp_bias", false);
  in.choice("mlp_hidden_act", kActivations, "relu2");
  if (has(c.pattern, 'M')) read_state_space(c, in);
  if (has(c.pattern, 'E')) read_experts_nemotron_h(c, in);
  read_prediction(c, in);
  // Attention has no positions; the shared expert's size counts all of them.
  for (const char* without_effect : {"partial_rotary_factor", "n_shared_experts", "rms_norm_eps"})
    in.expect(without_effect);
  return c;
}

/// Blocks are the kinds that the pattern has, in the order of kKinds.
Network build_nemotron_h(const TransformerConfig& c) {
  Network network = decoder_network(c, {});
  network.blocks.erase(network.blocks.begin() + 1);
  network.repeat = {1, 1};
  network.pattern.assign(c.pattern.size(), 0);
  int at = 0;
  for (const Kind& kind : kKinds) {
    if (!has(c.pattern, kind.letter)) continue;
    ++at;
    network.blocks.insert(network.blocks.begin() + at, layer(c, kind));
    network.repeat.insert(network.repeat.begin() + at,
                          static_cast<int>(std::count(c.pattern.begin(), c.pattern.end(), kind.letter)));
    for (std::size_t i = 0; i < c.pattern.size(); ++i)
      if (c.pattern[i] == kind.letter) network.pattern[i] = at;
  }
  return network;
}

[[maybe_unused]] const bool kNemotronHRegistered = architectures().add({
    "nemotron_h",
    "Nemotron-H, Nemotron 3: Mamba-2, attention, MLPs and experts in the order of a pattern",
    decoder_keys({{"hybrid_override_pattern",
                   "a letter for each layer: M (Mamba-2), * (attention), - (MLP), E (experts)", "required"},
                  {"layers_block_type", "the same as a list: mamba, attention, mlp, moe", "required without a pattern"},
                  {"mtp_layers_block_type", "the same of a prediction module", "none"},
                  {"attention_head_dim", "head_dim, where that is not given", "hidden_size / num_attention_heads"},
                  {"mlp_hidden_act", "must be relu2", "relu2"},
                  {"layer_norm_epsilon", "added to the mean square", "1e-5"},
                  {"attention_bias", "biases in the attention projections", "false"},
                  {"mlp_bias", "biases in the MLP", "false"},
                  {"mamba_num_heads", "heads of a Mamba-2 mixer", "required with M"},
                  {"mamba_head_dim", "size of such a head", "required with M"},
                  {"n_groups", "groups of heads with b and c of their own", "required with M"},
                  {"ssm_state_size", "size of b and c", "required with M"},
                  {"conv_kernel", "tokens that the mixer's convolution reads", "4"},
                  {"chunk_size", "tokens that its kernels work on at a time", "128"},
                  {"use_bias", "biases in the mixer's projections", "false"},
                  {"use_conv_bias", "must be true: the convolution has a bias", "true"},
                  {"n_routed_experts", "experts per layer", "required with E"},
                  {"num_experts_per_tok", "experts that each token goes to", "required with E"},
                  {"moe_intermediate_size", "inner size of one expert", "required with E"},
                  {"moe_shared_expert_intermediate_size", "inner size of the expert that all tokens go to", "0: none"},
                  {"moe_latent_size", "features that experts see of a token", "all of them"},
                  {"n_group", "groups of experts", "1"},
                  {"topk_group", "groups that one token's experts lie in at most", "n_group"},
                  {"norm_topk_prob", "weights of a token's experts are normalised", "true"},
                  {"routed_scaling_factor", "factor of the routed experts' sum", "1"},
                  {"aux_loss_alpha", "coefficient of the load-balancing loss; no key of these files", "0"},
                  {"num_nextn_predict_layers", "further tokens that are predicted", "0"},
                  {"mtp_hybrid_override_pattern", "layers of a prediction module, must be *E",
                   "required where further tokens are predicted"},
                  {"mtp_use_repeated_layer", "one module predicts all of them", "true"}}),
    decoder_architecture(read_nemotron_h, build_nemotron_h),
});

}  // namespace
}  // namespace rehearse
