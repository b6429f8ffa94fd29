// What a file of a known family says and no code reads.

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/model/architecture.hpp"

namespace rehearse {
namespace {

/// Keys of Hugging Face's PretrainedConfig and of released files that change no training step; "x*" is a beginning.
constexpr std::array kNoEffect{
    // Names, versions, classes.
    "_*", "architectures", "auto_map", "transformers_version", "model_type", "tokenizer_class", "name_or_path", "name",
    "tokenizer_name", "verbose", "finetuning_task", "problem_type", "id2label", "label2id", "task_specific_params",
    "custom_pipelines", "title", "language", "processor_class", "transformers.js_config", "license*", "vision_feature*",
    // Tokens' numbers.
    "*_token_id", "*_token_ids", "*_token_index", "image_token*", "video_token*", "*_id", "max_token_id",
    // Generation and its caches.
    "use_cache", "max_length", "min_length", "do_sample", "early_stopping", "num_beams", "num_beam_groups",
    "diversity_penalty", "temperature", "top_p", "top_k", "typical_p", "repetition_penalty", "length_penalty",
    "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences",
    "output_attentions", "output_hidden_states", "output_scores", "return_dict", "return_dict_in_generate", "forced_*",
    "suppress_tokens", "begin_suppress_tokens", "remove_invalid_values", "exponential_decay_length_penalty",
    "chunk_size_feed_forward", "cache_implementation", "generation*", "prefix", "gradient_checkpointing", "kv_cache*",
    "use_flash_attn", "flash_attn*", "use_cache_*", "predict_special_tokens", "pad_key_length",
    // Types of the released weights, and how they are split and stored.
    "torch_dtype", "dtype", "quantization*", "compression_config", "torchscript", "use_bfloat16", "tf_legacy_loss",
    "pruned_heads", "pretraining_tp", "bf16", "fp16", "fp32", "params_dtype", "unsloth*", "slow_but_exact",
    "softmax_in_fp32", "attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "residual_in_fp32", "fused*",
    "apply_residual_connection_post_layernorm_fp32", "moe_implementation", "attn_implementation",
    "attention_implementation", "use_fast*",
    // Angles for long contexts: another table of the same size.
    "rope_scaling", "rope_parameters", "rope_local_base_freq", "local_rope_theta", "original_max_position_embeddings",
    "rope_interleave*", "max_window_layers", "use_dynamic_ntk", "use_logn_attn", "rope_ratio", "partial_rotary_type",
    "rope_theta*", "rotary_emb_base",
    // Of state spaces' kernels and initial values.
    "time_step*", "mamba_*act", "mamba_ssm_cache_dtype", "rescale_prenorm_residual", "num_logits_to_keep",
    "use_mamba_kernels", "expand", "moe_shared_expert_overlap", "mamba_proj_bias", "qk_head_dim", "topk_method",
    // Initial values.
    "initializer_*", "init_*", "embedding_init*", "emb_init*", "mup_*_init", "weight_init*",
    // Losses that are switched on elsewhere.
    "output_router_logits", "router_z_loss*", "router_aux_loss*", "ep_size", "seq_aux", "is_encoder_decoder",
    "cross_attention_hidden_size", "tie_encoder_decoder", "decoder_start*", "summary_*", "classifier_dropout", "onnx*",
    "gradient_check*", "num_labels", "pooler*", "directionality"};

bool matches(std::string_view key, std::string_view known) {
  if (known.starts_with('*')) return key.ends_with(known.substr(1));
  if (known.ends_with('*')) return key.starts_with(known.substr(0, known.size() - 1));
  if (const auto star = known.find('*'); star != std::string_view::npos)
    return key.starts_with(known.substr(0, star)) && key.ends_with(known.substr(star + 1));
  return key == known;
}

/// Off, or nothing: what is built has no such part.
bool turns_nothing_on(const nlohmann::json& v) {
  if (v.is_string()) return v.get_ref<const std::string&>().empty();
  return v.is_null() || v == false || v == 0 || (v.is_structured() && v.empty());
}

}  // namespace

std::vector<std::string> notes_on_unread(const ObjectReader& in) {
  std::vector<std::string> found;
  for (const std::string& key : in.unknown_keys()) {
    ObjectReader again = in;
    const nlohmann::json* value = again.raw(key);
    if (value == nullptr || turns_nothing_on(*value) ||
        std::any_of(kNoEffect.begin(), kNoEffect.end(), [&](std::string_view k) { return matches(key, k); }))
      continue;
    std::string text = value->dump();
    if (text.size() > 40) text = text.substr(0, 37) + "...";
    found.push_back(fmt::format("{} = {}", key, text));
  }
  if (found.empty()) return {};
  return {fmt::format("{}: not known here, and left out, whatever it changes: {}", in.where(), fmt::join(found, ", "))};
}

}  // namespace rehearse
