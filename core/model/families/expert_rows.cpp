// Families with experts, a line of data each; see dense_rows.cpp for the sources.

#include <string>
#include <utility>

#include "core/model/families/family_keys.hpp"

namespace rehearse {
namespace {

using namespace family;
using Moe = FamilyDraft;

FamilyKey expert_count(std::string key) { return needed(std::move(key), experts, kExpertCount, "experts per layer"); }
FamilyKey chosen(std::string key) {
  return needed(std::move(key), top_k, kExpertCount, "experts that each token goes to");
}
FamilyKey inner(std::string key) {
  return needed(std::move(key), expert_ffn, {1, kMaxWidth}, "inner size of one expert");
}
FamilyKey shared_inner(std::string key) {
  return given(std::move(key), shared_ffn, {0, kMaxWidth}, "inner size of the expert that all tokens go to", "none");
}
FamilyKey balance(std::string key) {
  return number(std::move(key), aux_loss, kAuxLossCoefficient, "coefficient of the load-balancing loss");
}
FamilyKey normalised(std::string key) {
  return with(std::move(key), "weights of a token's experts add up to one", {},
              [](ObjectReader& in, const std::string& name, Moe& d) {
                d.experts.routing.normalise = in.boolean(name, d.experts.routing.normalise);
              });
}
FamilyKey attention_biases(std::vector<bool TransformerConfig::*> which) {
  return flag("attention_bias", std::move(which), "biases in the attention projections");
}

FamilyDraft moe(bool normalise) {
  return changed(llama_start(), [normalise](Moe& d) { d.experts.routing.normalise = normalise; });
}

[[maybe_unused]] const bool kQwen2Moe =
    enter_family("qwen2_moe", "Qwen1.5-MoE, Qwen2-MoE: Qwen2's attention, routed experts beside a shared one",
                 changed(moe(false),
                         [](Moe& d) {
                           d.qkv_bias = true;
                           d.notes = {"the gate of the shared expert, one weight for each feature, is left out"};
                         }),
                 llama_like({expert_count("num_experts"), chosen("num_experts_per_tok"), inner("moe_intermediate_size"),
                             shared_inner("shared_expert_intermediate_size"), normalised("norm_topk_prob"),
                             balance("router_aux_loss_coef"), routed_every("decoder_sparse_step"),
                             listed_layers("mlp_only_layers", false), window("sliding_window"),
                             flag("qkv_bias", {&Moe::qkv_bias}, "biases on q, k and v"),
                             with("use_sliding_window", "whether there is a window", "false",
                                  [](ObjectReader& in, const std::string& name, Moe& d) {
                                    if (!in.boolean(name, false)) d.window = 0;
                                  })}));

[[maybe_unused]] const bool kQwen3VlMoe =
    enter_family("qwen3_vl_moe_text", "text of Qwen3-VL with experts: Qwen3-MoE's layers",
                 changed(moe(true), [](Moe& d) { d.qk_norm = true; }),
                 llama_like({expert_count("num_experts"), chosen("num_experts_per_tok"), inner("moe_intermediate_size"),
                             normalised("norm_topk_prob"), balance("router_aux_loss_coef"),
                             routed_every("decoder_sparse_step"), listed_layers("mlp_only_layers", false),
                             attention_biases({&Moe::qkv_bias, &Moe::attention_output_bias})}));

[[maybe_unused]] const bool kOlmoe = enter_family(
    "olmoe", "OLMoE: the Llama layer with routed experts, normalised queries and keys",
    changed(moe(false), [](Moe& d) { d.qk_norm_all = true, d.norm_eps = 1e-5; }),
    llama_like({expert_count("num_experts"), chosen("num_experts_per_tok"), normalised("norm_topk_prob"),
                balance("router_aux_loss_coef"), values_only("clip_qkv", "clipped queries, keys and values"),
                attention_biases({&Moe::qkv_bias, &Moe::attention_output_bias})}));

FamilyKeys granite_moe_keys(FamilyKeys own) {
  FamilyKeys out{expert_count("num_local_experts"),
                 chosen("num_experts_per_tok"),
                 balance("router_aux_loss_coef"),
                 attention_biases({&Moe::qkv_bias, &Moe::attention_output_bias}),
                 values_only("embedding_multiplier", "a constant factor (embedding_multiplier)"),
                 values_only("residual_multiplier", "a constant factor (residual_multiplier)"),
                 no_effect("logits_scaling", "a factor of the logits"),
                 no_effect("attention_multiplier", "a factor inside attention")};
  out.insert(out.end(), own.begin(), own.end());
  return llama_like(std::move(out));
}
[[maybe_unused]] const bool kGraniteMoe =
    enter_family("granitemoe", "Granite 3 with experts in every layer",
                 changed(moe(true), [](Moe& d) { d.tied = false; }), granite_moe_keys({}));
[[maybe_unused]] const bool kGraniteMoeShared =
    enter_family("granitemoeshared", "Granite 4 of attention alone: experts beside a shared one", moe(true),
                 granite_moe_keys({shared_inner("shared_intermediate_size")}));

[[maybe_unused]] const bool kGlm4Moe = enter_family(
    "glm4_moe", "GLM-4.5: first layers dense, many small experts beside a shared one, prediction of further tokens",
    changed(moe(true),
            [](Moe& d) {
              d.rotary_share = 0.5;
              d.experts.routing.sigmoid = true;
              d.norm_eps = 1e-5;
            }),
    llama_like(
        {expert_count("n_routed_experts"), chosen("num_experts_per_tok"), inner("moe_intermediate_size"),
         with("n_shared_experts", "experts that all tokens go to", "0",
              [](ObjectReader& in, const std::string& name, Moe& d) {
                d.experts.shared_ffn = in.integer(name, {0, 1 << 10}, 0) * d.experts.ffn;
              }),
         first_dense("first_k_dense_replace"), given("n_group", groups, kExpertCount, "groups of experts", "1"),
         given("topk_group", group_limit, kExpertCount, "groups that a token's experts lie in", "1"),
         normalised("norm_topk_prob"), scores("scoring_func"),
         number("routed_scaling_factor", routed_scale, {0.0, 1e6}, "factor of the routed experts' sum"),
         rotary_share("partial_rotary_factor"), flag("use_qk_norm", {&Moe::qk_norm}, "normalised queries and keys"),
         given("num_nextn_predict_layers", &Moe::predict_further, {0, 16}, "modules that predict further tokens", "0"),
         attention_biases({&Moe::qkv_bias})}));

[[maybe_unused]] const bool kMiniMaxM2 = enter_family(
    "minimax_m2", "MiniMax-M2: the Llama layer with many small experts, normalised queries and keys",
    changed(moe(true), [](Moe& d) { d.qk_norm_all = true, d.experts.routing.sigmoid = true; }),
    llama_like({expert_count("num_local_experts"), chosen("num_experts_per_tok"), balance("router_aux_loss_coef"),
                scores("scoring_func"),
                given("rotary_dim", &Moe::rotary_dim, {2, kMaxWidth}, "elements of a head that turn", "head_dim"),
                rotary_share("partial_rotary_factor"),
                with("use_qk_norm", "normalised queries and keys", "true",
                     [](ObjectReader& in, const std::string& name, Moe& d) { d.qk_norm_all = in.boolean(name, true); }),
                must_be("qk_norm_type", "per_layer", "other norms"),
                with("use_mtp", "modules that predict further tokens: left out, with a note", "false",
                     [](ObjectReader& in, const std::string& name, Moe& d) {
                       if (in.boolean(name, false))
                         d.notes.emplace_back(
                             "modules that predict further tokens (use_mtp), whose layers the released "
                             "code does not have, are left out");
                     }),
                no_effect("num_mtp_modules", "left out"), no_effect("mtp_transformer_layers", "left out"),
                no_effect("use_routing_bias", "a bias of scores that no gradient trains"),
                with("shared_intermediate_size", "must be 0", "0",
                     [](ObjectReader& in, const std::string& name, Moe& d) {
                       d.experts.shared_ffn = in.integer(name, {0, kMaxWidth}, 0);
                     }),
                with("attn_type_list", "a 1 for each layer: attention to all tokens", "all",
                     [](ObjectReader& in, const std::string& name, Moe&) {
                       for (const double type : in.has(name) ? in.numbers(name) : std::vector<double>{})
                         if (type != 1) in.fail(name, "a layer of linear attention", "no operator here computes that");
                       in.expect(name);
                     })}));

[[maybe_unused]] const bool kPhiMoe = enter_family(
    "phimoe", "Phi-3.5-MoE: LayerNorm, routed experts, biases in attention",
    changed(moe(false),
            [](Moe& d) {
              d.norm = OpKind::layer_norm;
              d.norm_eps = 1e-5;
            }),
    llama_like({expert_count("num_local_experts"), chosen("num_experts_per_tok"), balance("router_aux_loss_coef"),
                attention_biases({&Moe::qkv_bias, &Moe::attention_output_bias}),
                flag("lm_head_bias", {&Moe::head_bias}, "a bias of the output projection"), window("sliding_window"),
                no_effect("router_jitter_noise", "noise of scores"), no_effect("input_jitter_noise", "noise of tokens"),
                number("hidden_dropout", &Moe::hidden_dropout, kDropout, "dropout on each branch")}));

FamilyDraft llama4() {
  return changed(moe(false), [](Moe& d) {
    d.experts.routing.sigmoid = true;
    d.norm_eps = 1e-5;
    d.simulated_only = {"weights of experts on what goes into them"};
  });
}
[[maybe_unused]] const bool kLlama4 = enter_family(
    "llama4_text",
    "Llama 4's text: experts beside a shared one in every or every second layer, three of four to chunks", llama4(),
    llama_like({expert_count("num_local_experts"), chosen("num_experts_per_tok"),
                with("intermediate_size_mlp", "inner size of the MLP of layers without experts", "intermediate_size",
                     [](ObjectReader& in, const std::string& name, Moe& d) {
                       d.experts.ffn = d.experts.shared_ffn = d.ffn;
                       d.ffn = in.integer(name, {1, kMaxWidth}, d.ffn);
                     }),
                routed_every("interleave_moe_layer_step"), listed_layers("moe_layers", true),
                unturned_layers("no_rope_layers", 4), no_effect("no_rope_layer_interval", "again no_rope_layers"),
                balance("router_aux_loss_coef"), attention_biases({&Moe::qkv_bias, &Moe::attention_output_bias}),
                with("attention_chunk_size", "tokens of a chunk that attention stays in, simulated as a window", "none",
                     [](ObjectReader& in, const std::string& name, Moe& d) {
                       d.window = in.integer(name, {0, kMaxPositions}, 0);
                       d.windowed = d.unturned;
                       d.windowed.flip();
                       if (d.window > 0 && d.window < d.max_positions)
                         d.simulated_only.emplace_back("attention inside chunks");
                     }),
                no_effect("layer_types", "again no_rope_layers"),
                values_only("use_qk_norm", "norms of queries and keys without weights"),
                no_effect("attn_temperature_tuning", "a factor inside attention"), no_effect("attn_scale", "the same"),
                no_effect("floor_scale", "the same"), no_effect("for_llm_compressor", "of released weights"),
                no_effect("router_jitter_noise", "noise of scores")}));

[[maybe_unused]] const bool kDbrx = enter_family(
    "dbrx", "DBRX: LayerNorm, routed experts, grouped key and value heads",
    changed(moe(true), [](Moe& d) { d.norm = OpKind::layer_norm, d.norm_eps = 1e-5; }),
    common({needed("n_layers", &Moe::layers, {1, kMaxLayers}, "layers"),
            needed("d_model", &Moe::hidden, {1, kMaxWidth}, "hidden size"),
            needed("n_heads", &Moe::heads, {1, kMaxWidth}, "query heads"),
            needed("vocab_size", &Moe::vocabulary, {1, kMaxVocabulary}, "rows of the word table"),
            needed("max_seq_len", &Moe::max_positions, {1, kMaxPositions}, "longest sequence"),
            number("emb_pdrop", &Moe::embedding_dropout, kDropout, "dropout after the embedding"),
            number("resid_pdrop", &Moe::hidden_dropout, kDropout, "dropout on each branch"),
            given("attn_config.kv_n_heads", &Moe::kv_heads, {1, kMaxWidth}, "key and value heads", "n_heads"),
            rope_base("attn_config.rope_theta"),
            number("attn_config.attn_pdrop", &Moe::attention_dropout, kDropout, "dropout of probabilities"),
            values_only("attn_config.clip_qkv", "clipped queries, keys and values"),
            needed("ffn_config.ffn_hidden_size", expert_ffn, {1, kMaxWidth}, "inner size of one expert"),
            expert_count("ffn_config.moe_num_experts"), chosen("ffn_config.moe_top_k"),
            balance("ffn_config.moe_loss_weight"), no_effect("ffn_config.ffn_act_fn", "a gate of SiLU"),
            no_effect("ffn_config.moe_jitter_eps", "noise of scores"),
            no_effect("ffn_config.moe_normalize_expert_weights", "which norm the weights have"),
            no_effect("ffn_config.uniform_expert_assignment", "of tests")}));

}  // namespace
}  // namespace rehearse
