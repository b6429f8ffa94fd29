#pragma once
// Names of the facts from which keys of a scenario follow, as tables of terms and those who read them spell them.
//
// Of the job: job.nodes, job.gpus_per_node, job.gpus (how many ranks); job.local_batch (sequences of a replica per
// step), job.accumulation (microbatches per step); job.bf16, job.fp16, job.fp32, job.tf32, job.fp8, job.fp4;
// job.layers_per_chunk, job.layout, job.first_stage_layers, job.last_stage_layers, job.embedding_is_layer,
// job.loss_is_layer (how layers are divided among stages); job.recompute; job.tokens,
// job.samples, job.steps (how long it trains); job.sharding and job.zero (what data-parallel ranks divide).
//
// Of the model: model.name (a registered model's name or one of the hub's); model.layers, model.hidden, model.ffn,
// model.heads, model.kv_heads, model.grouped (whether kv_heads counts), model.head_dim, model.vocabulary,
// model.vocabulary_multiple, model.positions; model.norm ("rms" or "layer"), model.norm_eps; model.position ("rope",
// "learned", "alibi", "none"), model.rope_theta, model.rope_fraction; model.activation ("swiglu", "gelu",
// "squared_relu", "quick_geglu"); model.bias, model.qkv_bias, model.tied, model.qk_norm; model.attention_dropout,
// model.hidden_dropout, model.init_std; model.latent, model.q_rank, model.kv_rank, model.nope_dim, model.rope_dim,
// model.v_dim; model.experts, model.top_k, model.expert_ffn, model.shared_ffn, model.expert_groups, model.group_limit,
// model.router ("softmax" or "sigmoid"), model.router_bias (biases that balance take part in the choice),
// model.router_before_choice (softmax over all experts), model.router_scale, model.aux_loss, model.z_loss,
// model.expert_layers (which layers have experts);
// model.window, model.window_skip, model.sinks, model.predict_further; model.pattern.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/model/hf_config.hpp"

namespace rehearse::translate {

using ModelFacts = std::vector<std::pair<std::string, nlohmann::ordered_json>>;

/// A decoder stack as facts, in the order in which files state them.
[[nodiscard]] ModelFacts facts_of(const TransformerConfig& config);

}  // namespace rehearse::translate
