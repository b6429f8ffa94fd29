#include "core/translate/facts.hpp"

#include <fmt/format.h>

namespace rehearse::translate {

namespace {

void add_experts(const TransformerConfig& c, ModelFacts& out) {
  const ExpertLayers& e = c.experts;
  if (e.routing.experts == 0) return;
  out.insert(out.end(),
             {{"model.experts", e.routing.experts}, {"model.top_k", e.routing.top_k}, {"model.expert_ffn", e.ffn}});
  if (e.shared_ffn > 0) out.emplace_back("model.shared_ffn", e.shared_ffn);
  if (e.routing.groups > 1) {
    out.emplace_back("model.expert_groups", e.routing.groups);
    out.emplace_back("model.group_limit", e.routing.limit);
  }
  if (e.routing.sigmoid) {
    out.emplace_back("model.router", "sigmoid");
    out.emplace_back("model.router_bias", true);  // All that score so choose by scores and biases.
  } else if (!e.routing.normalise) {
    out.emplace_back("model.router_before_choice", true);
  }
  if (e.routing.scale != 1.0) out.emplace_back("model.router_scale", e.routing.scale);
  if (e.routing.aux_loss > 0) out.emplace_back("model.aux_loss", e.routing.aux_loss);
  if (e.routing.z_loss > 0) out.emplace_back("model.z_loss", e.routing.z_loss);
  if (e.dense_layers > 0)
    out.emplace_back("model.expert_layers", fmt::format("([0]*{}+[1]*{})", e.dense_layers, c.layers - e.dense_layers));
}

void add_latent(const TransformerConfig& c, ModelFacts& out) {
  if (c.latent.kv_rank == 0) return;
  out.emplace_back("model.latent", true);
  if (c.latent.q_rank > 0) out.emplace_back("model.q_rank", c.latent.q_rank);
  out.insert(out.end(), {{"model.kv_rank", c.latent.kv_rank},
                         {"model.nope_dim", c.latent.nope},
                         {"model.rope_dim", c.latent.rope},
                         {"model.v_dim", c.latent.v}});
}

std::string activation(const TransformerConfig& c) {
  if (c.experts.limit > 0) return "quick_geglu";
  // Families tell their MLP by themselves: Nemotron's has no gate, and squares.
  if (c.model_type == "nemotron") return "squared_relu";
  return c.norm == OpKind::rms_norm ? "swiglu" : "gelu";
}

}  // namespace

ModelFacts facts_of(const TransformerConfig& c) {
  ModelFacts out{
      {"model.layers", c.layers},        {"model.hidden", c.hidden},     {"model.ffn", c.ffn},
      {"model.heads", c.heads},          {"model.head_dim", c.head_dim}, {"model.positions", c.max_positions},
      {"model.vocabulary", c.vocabulary}};
  if (c.kv_heads != c.heads) {
    out.emplace_back("model.grouped", true);
    out.emplace_back("model.kv_heads", c.kv_heads);
  }
  out.emplace_back("model.norm", c.norm == OpKind::rms_norm ? "rms" : "layer");
  out.emplace_back("model.norm_eps", c.norm_eps);
  out.emplace_back("model.position", c.rotary_dim > 0 ? "rope" : c.positions ? "learned" : "none");
  if (c.rotary_dim > 0) {
    out.emplace_back("model.rope_theta", static_cast<std::int64_t>(c.rope_theta));
    if (c.rotary_dim != c.head_dim && c.latent.kv_rank == 0)
      out.emplace_back("model.rope_fraction", static_cast<double>(c.rotary_dim) / static_cast<double>(c.head_dim));
  }
  out.emplace_back("model.activation", activation(c));
  out.emplace_back("model.bias", c.mlp_bias || c.attention_output_bias);
  out.emplace_back("model.qkv_bias", c.qkv_bias && !c.attention_output_bias);
  out.emplace_back("model.tied", c.tied);
  out.emplace_back("model.qk_norm", c.qk_norm || c.latent.kv_rank > 0);  // Latent vectors are normalised, too.
  out.emplace_back("model.attention_dropout", c.attention_dropout);
  out.emplace_back("model.hidden_dropout", c.hidden_dropout);
  out.emplace_back("model.init_std", c.init_std);
  add_latent(c, out);
  add_experts(c, out);
  if (c.window > 0) {
    out.emplace_back("model.window", fmt::format("{},0", c.window - 1));
    if (c.alternating) out.emplace_back("model.window_skip", 2);
  }
  if (c.sinks) out.emplace_back("model.softmax", "learnable");
  if (c.experts.limit > 0) {
    out.emplace_back("model.glu_offset", 1.0);
    out.emplace_back("model.activation_limit", c.experts.limit);
  }
  if (c.predict_further > 0) out.emplace_back("model.predict_further", c.predict_further);
  if (c.parallel_residual) out.emplace_back("model.parallel_residual", true);
  return out;
}

}  // namespace rehearse::translate
