// Mixtral and Qwen3-MoE: the Llama layer with k of E experts in place of the MLP (Jiang et al. 2024; Yang et al. 2025).

#include <nlohmann/json.hpp>

#include "core/config/object_reader.hpp"
#include "core/model/architecture.hpp"
#include "core/model/families/decoder.hpp"
#include "core/model/families/llama_keys.hpp"

namespace rehearse {
namespace {

/// As configuration_mixtral.py of huggingface/transformers has it; Llama's is a tenth.
constexpr double kMixtralNormEps = 1e-5;

TransformerConfig read_mixtral(ObjectReader& in) {
  TransformerConfig c = read_llama_sizes(in);
  if (!in.has("rms_norm_eps")) c.norm_eps = kMixtralNormEps;
  read_window(c, in);
  Routing& r = c.experts.routing;
  r.experts = in.integer("num_local_experts", kExpertCount, 8);
  r.top_k = in.integer("num_experts_per_tok", kExpertCount, 2);
  r.aux_loss = in.number("router_aux_loss_coef", kAuxLossCoefficient, 0.001);
  c.experts.ffn = c.ffn;
  return c;
}

/// Every layer routes: neither a sparse step nor layers left out.
void require_experts_everywhere(ObjectReader& in) {
  if (in.integer("decoder_sparse_step", {0, kMaxLayers}, 1) != 1)
    in.fail("decoder_sparse_step", "only some layers have experts",
            "networks whose layers alternate are not built: set it to 1");
  if (const auto* dense = in.raw("mlp_only_layers"); dense != nullptr && !dense->empty())
    in.fail("mlp_only_layers", "some layers have no experts",
            "only the first layers of a network may be without: see 'first_k_dense_replace' of deepseek_v3");
}

TransformerConfig read_qwen3_moe(ObjectReader& in) {
  TransformerConfig c = read_llama_sizes(in);
  require_experts_everywhere(in);
  c.qk_norm = in.boolean("use_qk_norm", true);
  c.qkv_bias = c.attention_output_bias = in.boolean("attention_bias", false);
  in.expect("sliding_window");
  if (in.boolean("use_sliding_window", false)) read_window(c, in);
  Routing& r = c.experts.routing;
  r.experts = in.integer("num_experts", kExpertCount, 128);
  r.top_k = in.integer("num_experts_per_tok", kExpertCount, 8);
  r.normalise = in.boolean("norm_topk_prob", false);
  r.aux_loss = in.number("router_aux_loss_coef", kAuxLossCoefficient, 0.001);
  c.experts.ffn = in.integer("moe_intermediate_size", {1, kMaxWidth});
  return c;
}

[[maybe_unused]] const bool kMixtral = architectures().add({
    "mixtral",
    "Mixtral: the Llama layer with routed experts in place of the MLP",
    decoder_keys({{"rms_norm_eps", "added to the mean square", "1e-5"},
                  {"num_local_experts", "experts per layer", "8"},
                  {"num_experts_per_tok", "experts that each token goes to", "2"},
                  {"router_aux_loss_coef", "coefficient of the load-balancing loss", "0.001"},
                  {"sliding_window", "tokens that a token attends to", "none"}}),
    decoder_architecture(read_mixtral, expert_network),
});
[[maybe_unused]] const bool kQwen3Moe = architectures().add({
    "qwen3_moe",
    "Qwen3-MoE: Qwen3's attention, many small routed experts",
    llama_keys({{"num_experts", "experts per layer", "128"},
                {"num_experts_per_tok", "experts that each token goes to", "8"},
                {"moe_intermediate_size", "inner size of one expert", "required"},
                {"norm_topk_prob", "weights of a token's experts add up to one", "false"},
                {"router_aux_loss_coef", "coefficient of the load-balancing loss", "0.001"},
                {"decoder_sparse_step", "must be 1: every layer routes", "1"},
                {"mlp_only_layers", "must be empty", "none"},
                {"attention_bias", "biases in the attention projections", "false"},
                {"use_sliding_window", "whether sliding_window counts", "false"},
                {"sliding_window", "tokens that a token attends to", "none"}}),
    decoder_architecture(read_qwen3_moe, expert_network),
});

}  // namespace
}  // namespace rehearse
