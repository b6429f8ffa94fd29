// DeepSeek-V2 and V3: latent attention, first layers dense, many small experts beside shared ones, node-limited
// routing; V3 adds sigmoid scores and multi-token prediction (DeepSeek-AI 2024, arXiv 2405.04434 and 2412.19437). V3's
// correction bias, one number per expert that no gradient trains, is left out.

#include <fmt/format.h>

#include "core/config/object_reader.hpp"
#include "core/model/architecture.hpp"
#include "core/model/families/decoder.hpp"
#include "core/model/families/llama_keys.hpp"

namespace rehearse {
namespace {

void read_latent(TransformerConfig& c, ObjectReader& in) {
  LatentAttention& l = c.latent;
  l.q_rank = in.integer("q_lora_rank", {0, kMaxWidth}, 0);
  l.kv_rank = in.integer("kv_lora_rank", {1, kMaxWidth});
  l.nope = in.integer("qk_nope_head_dim", {1, kMaxWidth});
  l.rope = in.integer("qk_rope_head_dim", {2, kMaxWidth});
  l.v = in.integer("v_head_dim", {1, kMaxWidth});
  if ((l.nope + l.rope + l.v) % 2 != 0)
    in.fail("v_head_dim", "a head's query and value have an odd number of elements together",
            "kernels take even sizes");
  c.head_dim = l.nope + l.rope;
  c.kv_heads = c.heads;
  c.rotary_dim = l.rope;
}

void read_experts_deepseek(TransformerConfig& c, ObjectReader& in) {
  read_routed_experts(in, c.experts, false);
  c.experts.shared_ffn = in.integer("n_shared_experts", {0, 1 << 10}, 0) * c.experts.ffn;
  c.experts.dense_layers = in.integer("first_k_dense_replace", {0, kMaxLayers}, 0);
  if (in.integer("moe_layer_freq", {1, kMaxLayers}, 1) != 1)
    in.fail("moe_layer_freq", "only some layers have experts",
            "networks whose layers alternate are not built: set it to 1");
}

TransformerConfig read_common(ObjectReader& in, const std::string& scores) {
  static const std::vector<std::string> kScores{"softmax", "sigmoid"};
  TransformerConfig c = read_llama_sizes(in);
  read_latent(c, in);
  read_experts_deepseek(c, in);
  c.experts.routing.sigmoid = in.choice("scoring_func", kScores, scores) == "sigmoid";
  return c;
}

TransformerConfig read_v2(ObjectReader& in) { return read_common(in, "softmax"); }

TransformerConfig read_v3(ObjectReader& in) {
  TransformerConfig c = read_common(in, "sigmoid");
  c.predict_further = in.integer("num_nextn_predict_layers", {0, 16}, 0);
  return c;
}

/// V3.2 and GLM-5: an indexer scores all tokens before a token by few small heads, and attention is to the best of
/// them (DeepSeek-AI 2025, DeepSeek-V3.2, sec. 2.1).
TransformerConfig read_sparse(ObjectReader& in) {
  TransformerConfig c = read_v3(in);
  const std::int64_t heads = in.integer("index_n_heads", {1, kMaxWidth}),
                     size = in.integer("index_head_dim", {1, kMaxWidth});
  const std::int64_t each = c.latent.q_rank * heads * size + c.hidden * (size + heads) + 2 * size;
  for (const char* of_indexer : {"indexer_rope_interleave", "indexer_types", "index_share_for_mtp_iteration",
                                 "index_skip_topk_offset", "index_topk_freq"})
    in.expect(of_indexer);
  c.window = in.integer("index_topk", {1, kMaxPositions});
  if (c.window >= c.max_positions) c.window = 0;
  c.notes.push_back(
      fmt::format("the indexer of {} heads ({} parameters in each layer) and its scores are left out; "
                  "attention to its index_topk tokens is that to a window of so many",
                  heads, each));
  c.simulated_only.emplace_back("attention to chosen tokens");
  c.has_words = false;
  return c;
}

std::vector<ParameterHelp> keys(std::initializer_list<ParameterHelp> own) {
  std::vector<ParameterHelp> all =
      llama_keys({{"q_lora_rank", "size of the latent that queries come from; none: no latent", "none"},
                  {"kv_lora_rank", "size of the latent that keys and values come from", "required"},
                  {"qk_nope_head_dim", "elements of a head's query and key that do not turn", "required"},
                  {"qk_rope_head_dim", "elements that turn, shared by all heads of a key", "required"},
                  {"v_head_dim", "size of a head's value", "required"},
                  {"n_routed_experts", "experts per layer", "required"},
                  {"num_experts_per_tok", "experts that each token goes to", "required"},
                  {"n_shared_experts", "experts that all tokens go to", "0"},
                  {"moe_intermediate_size", "inner size of one expert", "required"},
                  {"first_k_dense_replace", "first layers with a plain MLP", "0"},
                  {"n_group", "groups of experts, one per node", "1"},
                  {"topk_group", "groups that one token's experts lie in at most", "n_group"},
                  {"norm_topk_prob", "weights of a token's experts are normalised", "false"},
                  {"routed_scaling_factor", "factor of the routed experts' sum", "1"},
                  {"aux_loss_alpha", "coefficient of the load-balancing loss", "0"},
                  {"moe_layer_freq", "must be 1: every layer after the first routes", "1"}});
  all.insert(all.end(), own);
  return all;
}

[[maybe_unused]] const bool kV2 = architectures().add({
    "deepseek_v2",
    "DeepSeek-V2: latent attention, small routed experts beside shared ones",
    keys({{"scoring_func", "softmax or sigmoid", "softmax"}}),
    decoder_architecture(read_v2, expert_network),
});
[[maybe_unused]] const bool kKimiK2 = architectures().add({
    "kimi_k2",
    "Kimi K2: DeepSeek-V3's layers",
    keys({{"scoring_func", "softmax or sigmoid", "sigmoid"},
          {"num_nextn_predict_layers", "modules that predict further tokens", "0"}}),
    decoder_architecture(read_v3, expert_network),
});
std::vector<ParameterHelp> sparse_keys() {
  return keys({{"scoring_func", "softmax or sigmoid", "sigmoid"},
               {"num_nextn_predict_layers", "modules that predict further tokens", "0"},
               {"index_n_heads", "heads of the indexer, which is left out with a note", "required"},
               {"index_head_dim", "size of such a head", "required"},
               {"index_topk", "tokens that a token attends to", "required"}});
}
[[maybe_unused]] const bool kV32 = architectures().add({
    "deepseek_v32",
    "DeepSeek-V3.2: V3 with attention to few tokens, simulated as a window",
    sparse_keys(),
    decoder_architecture(read_sparse, expert_network),
});
[[maybe_unused]] const bool kGlm5 = architectures().add({
    "glm_moe_dsa",
    "GLM-5: DeepSeek-V3.2's layers",
    sparse_keys(),
    decoder_architecture(read_sparse, expert_network),
});
[[maybe_unused]] const bool kV3 = architectures().add({
    "deepseek_v3",
    "DeepSeek-V3, R1: V2 with sigmoid scores and multi-token prediction",
    keys({{"scoring_func", "softmax or sigmoid", "sigmoid"},
          {"num_nextn_predict_layers", "modules that predict further tokens", "0"}}),
    decoder_architecture(read_v3, expert_network),
});

}  // namespace
}  // namespace rehearse
