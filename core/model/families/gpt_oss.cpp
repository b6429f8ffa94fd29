// GPT-OSS: experts in every layer, attention with sinks, to a window and to all tokens in turn (OpenAI 2025, arXiv
// 2508.10925).

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/config/object_reader.hpp"
#include "core/model/architecture.hpp"
#include "core/model/families/decoder.hpp"
#include "core/model/families/llama_keys.hpp"

namespace rehearse {
namespace {

constexpr NumberRange kLimit{0.0, 1e6};

/// Windows stand in every second layer, from the first on: other orders are not built.
void require_turns(ObjectReader& in) {
  const nlohmann::json* types = in.raw("layer_types");
  if (types == nullptr) return;
  for (std::size_t i = 0; i < types->size(); ++i)
    if ((*types)[i] != (i % 2 == 0 ? "sliding_attention" : "full_attention"))
      in.fail("layer_types", fmt::format("layer {} is out of turn", i), "layers alternate, sliding_attention first");
}

TransformerConfig read_gpt_oss(ObjectReader& in) {
  TransformerConfig c = read_llama_sizes(in);
  c.qkv_bias = c.attention_output_bias = in.boolean("attention_bias", true);
  c.sinks = true;
  c.alternating = true;
  c.window = in.integer("sliding_window", {0, kMaxPositions}, 128);
  require_turns(in);
  for (const char* again : {"experts_per_token", "initial_context_length"}) in.expect(again);
  if (auto scaling = in.optional_object("rope_scaling")) c.rope_scaled = scaling->string("rope_type", "") == "yarn";
  ExpertLayers& e = c.experts;
  e.routing.experts = in.integer("num_local_experts", kExpertCount, 128);
  e.routing.top_k = in.integer("num_experts_per_tok", kExpertCount, 4);
  const double coefficient = in.number("router_aux_loss_coef", kAuxLossCoefficient, 0.9);
  e.routing.aux_loss = in.boolean("output_router_logits", false) ? coefficient : 0.0;
  e.ffn = c.ffn;
  e.bias = true;
  e.limit = in.number("swiglu_limit", kLimit, 7.0);
  return c;
}

[[maybe_unused]] const bool kGptOss = architectures().add({
    "gpt_oss",
    "GPT-OSS: routed experts, attention with sinks, to a window in every second layer",
    llama_keys(
        {{"attention_bias", "biases in the attention projections", "true"},
         {"sliding_window", "tokens that layers 0, 2, 4, ... attend to; 0: all", "128"},
         {"layer_types", "must alternate: sliding_attention, full_attention, ...", "alternating"},
         {"rope_scaling",
          "an object: rope_type yarn has a factor that no fused rotation takes; no result depends on it", "none"},
         {"num_local_experts", "experts per layer", "128"},
         {"num_experts_per_tok", "experts that each token goes to", "4"},
         {"swiglu_limit", "bound of gate and up in the experts' activation", "7"},
         {"router_aux_loss_coef", "coefficient of the load-balancing loss", "0.9"},
         {"output_router_logits", "whether that loss is used", "false"}}),
    decoder_architecture(read_gpt_oss, alternating_network),
});

}  // namespace
}  // namespace rehearse
