// Families without experts, a line of data each: what their classes in huggingface/transformers (src/transformers/
// models/NAME/modeling_NAME.py and configuration_NAME.py) take for granted, and the keys that differ from Llama's. A
// LayerNorm has a bias here, also where the class has none (Cohere, DBRX, MPT): one number for each feature more.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/model/families/family_keys.hpp"

namespace rehearse {
namespace {

using namespace family;
using D = FamilyDraft;

const std::vector<bool TransformerConfig::*> kQkv{&D::qkv_bias}, kAttention{&D::qkv_bias, &D::attention_output_bias},
    kMlp{&D::mlp_bias}, kAll{&D::qkv_bias, &D::attention_output_bias, &D::mlp_bias};

FamilyKey attention_bias() { return flag("attention_bias", kAttention, "biases in the attention projections"); }
FamilyKey qkv_bias(std::string key = "attention_bias") { return flag(std::move(key), kQkv, "biases on q, k and v"); }
FamilyKey mlp_bias() { return flag("mlp_bias", kMlp, "biases in the MLP"); }
FamilyKey use_window() {
  return with("use_sliding_window", "whether there is a window", "false",
              [](ObjectReader& in, const std::string& name, D& d) {
                if (!in.boolean(name, false)) d.window = 0;
              });
}
FamilyKey dropout(std::string key) {
  return number(std::move(key), &D::hidden_dropout, kDropout, "dropout on each branch");
}
FamilyKey embedding_dropout(std::string key) {
  return number(std::move(key), &D::embedding_dropout, kDropout, "dropout after the embedding");
}
FamilyKey parallel(std::string key, bool fallback) {
  return with(std::move(key), "attention and MLP side by side, from one norm", fallback ? "true" : "false",
              [fallback](ObjectReader& in, const std::string& name, D& d) {
                d.residual = in.boolean(name, fallback) ? Residual::parallel_shared : Residual::sequential;
              });
}
FamilyKey softcap(std::string key) { return values_only(std::move(key), "softcapped scores or logits"); }
FamilyKey factor(const std::string& key) { return values_only(key, "a constant factor (" + key + ")"); }

/// Sizes by the names of GPT-2's first followers.
FamilyKeys gpt_sizes(FamilyKeys own) {
  FamilyKeys out{
      needed("n_layer|num_hidden_layers|num_layers", &D::layers, {1, kMaxLayers}, "layers"),
      needed("n_embd|hidden_size|n_embed", &D::hidden, {1, kMaxWidth}, "hidden size"),
      needed("n_head|num_attention_heads|num_heads", &D::heads, {1, kMaxWidth}, "query heads"),
      given("n_inner|intermediate_size", &D::ffn, {1, kMaxWidth}, "inner size of the MLP", "4 * hidden size"),
      needed("vocab_size", &D::vocabulary, {1, kMaxVocabulary}, "rows of the word table"),
      needed("n_positions|max_position_embeddings|seq_length|n_ctx|max_sequence_length", &D::max_positions,
             {1, kMaxPositions}, "longest sequence"),
      number("layer_norm_epsilon|layer_norm_eps", &D::norm_eps, {0.0, 1.0}, "added to the variance"),
      activation_key("activation_function|hidden_act"),
      embedding_dropout("embd_pdrop|embed_dropout|embedding_dropout"),
      dropout("resid_pdrop|resid_dropout|hidden_dropout")};
  const FamilyKeys more = common(std::move(own));
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

D gemma() {
  return changed(llama_start(), [](D& d) {
    d.activation = Activation::gelu_tanh;
    d.tied = true;
    d.head_dim = 256;
    d.simulated_only = {"word rows times the root of the hidden size"};
  });
}
D sandwiched(D d) {
  d.residual = Residual::sandwiched;
  return d;
}

// ---- Gemma

[[maybe_unused]] const bool kGemma = enter_family("gemma", "Gemma: the Llama layer with a gate of GELU, tied",
                                                  changed(gemma(),
                                                          [](D& d) {
                                                            d.heads = d.kv_heads = 16, d.hidden = 3072, d.ffn = 24'576,
                                                            d.layers = 28;
                                                            d.vocabulary = 256'000, d.max_positions = 8192;
                                                          }),
                                                  llama_like({attention_bias()}));

[[maybe_unused]] const bool kGemma2 = enter_family(
    "gemma2", "Gemma 2: norms before and after each branch, a window in every second layer",
    changed(sandwiched(gemma()),
            [](D& d) {
              d.heads = 8, d.kv_heads = 4, d.hidden = 2304, d.ffn = 9216, d.layers = 26;
              d.vocabulary = 256'000, d.max_positions = 8192, d.window = 4096;
            }),
    llama_like({attention_bias(), window("sliding_window"), layer_types(), window_pattern("sliding_window_pattern", 2),
                softcap("attn_logit_softcapping"), softcap("final_logit_softcapping"),
                no_effect("query_pre_attn_scalar", "a factor inside attention"),
                no_effect("sliding_window_size", "again the window")}));

FamilyKeys gemma3_keys() {
  return llama_like({attention_bias(), window("sliding_window"), layer_types(),
                     window_pattern("sliding_window_pattern|_sliding_window_pattern", 6),
                     softcap("attn_logit_softcapping"), softcap("final_logit_softcapping"),
                     no_effect("query_pre_attn_scalar", "a factor inside attention"),
                     must_be("use_bidirectional_attention", false, "attention to later tokens"),
                     no_effect("mm_tokens_per_image", "of images")});
}
/// Files leave out what the class has by itself.
D gemma3() {
  return changed(sandwiched(gemma()), [](D& d) {
    d.qk_norm = true;
    d.heads = 8, d.kv_heads = 4, d.hidden = 2304, d.ffn = 9216, d.layers = 26;
    d.vocabulary = 262'208, d.max_positions = 131'072, d.window = 4096;
  });
}
[[maybe_unused]] const bool kGemma3 =
    enter_family("gemma3_text", "Gemma 3: as Gemma 2, normalised queries and keys, windows in five of six layers",
                 gemma3(), gemma3_keys());

// ---- Cohere

D cohere() {
  return changed(llama_start(), [](D& d) {
    d.norm = OpKind::layer_norm;
    d.norm_eps = 1e-5;
    d.residual = Residual::parallel_shared;
    d.tied = true;
  });
}
FamilyKey logit_scale() { return no_effect("logit_scale", "a factor of the logits"); }
[[maybe_unused]] const bool kCohere =
    enter_family("cohere", "Command R: LayerNorm, gated SiLU, attention and MLP side by side, tied", cohere(),
                 llama_like({attention_bias(), logit_scale(),
                             flag("use_qk_norm", {&D::qk_norm_all}, "normalised queries and keys")}));
[[maybe_unused]] const bool kCohere2 = enter_family(
    "cohere2", "Command R7B, A: as Command R, three of four layers to a window, the others without positions",
    changed(cohere(), [](D& d) { d.window = 4096; }),
    llama_like({attention_bias(), logit_scale(), window("sliding_window"), layer_types(),
                window_pattern("sliding_window_pattern", 4),
                with("use_embedding_sharing", "tied", "true",
                     [](ObjectReader& in, const std::string& name, D& d) { d.tied = in.boolean(name, d.tied); }),
                with("order_of_interleaved_layers", "which layers attend to a window", "local ones first",
                     [](ObjectReader& in, const std::string& name, D& d) {
                       in.expect(name);
                       d.unturned = d.windowed;
                       d.unturned.flip();
                     }),
                must_be("use_parallel_block", true, "branches one after the other"),
                must_be("use_gated_activation", true, "an MLP without a gate"),
                must_be("use_qk_norm", false, "normalised queries and keys"),
                must_be("position_embedding_type", "rope_gptj", "other positions"),
                no_effect("rotary_pct", "all of a head turns"), no_effect("layer_switch", "again the pattern"),
                no_effect("use_parallel_embedding", "how tables are split")}));

// ---- OLMo

D olmo2() {
  return changed(llama_start(), [](D& d) {
    d.residual = Residual::after;
    d.qk_norm_all = true;
    d.norm_eps = 1e-5;
  });
}
[[maybe_unused]] const bool kOlmo =
    enter_family("olmo", "OLMo: the Llama layer with norms that have no weights, which count here",
                 changed(llama_start(), [](D& d) { d.norm = OpKind::rms_norm; }),
                 llama_like({attention_bias(), values_only("clip_qkv", "clipped queries, keys and values")}));
[[maybe_unused]] const bool kOlmo2 = enter_family(
    "olmo2", "OLMo 2: norms after the branches, normalised queries and keys", olmo2(), llama_like({attention_bias()}));
[[maybe_unused]] const bool kOlmo3 =
    enter_family("olmo3", "OLMo 3: as OLMo 2, with a window in three of four layers", olmo2(),
                 llama_like({attention_bias(), window("sliding_window"), layer_types(),
                             window_pattern("sliding_window_pattern", 4)}));

// ---- GLM

D glm() {
  return changed(llama_start(), [](D& d) {
    d.norm_eps = 1.5625e-7;
    d.rotary_share = 0.5;
  });
}
[[maybe_unused]] const bool kGlm = enter_family("glm", "GLM-4 of 2024: the Llama layer, half of each head turns", glm(),
                                                llama_like({qkv_bias(), rotary_share("partial_rotary_factor")}));
[[maybe_unused]] const bool kGlm4 =
    enter_family("glm4", "GLM-4 of 2025: as GLM, norms before and after each branch", sandwiched(glm()),
                 llama_like({qkv_bias(), rotary_share("partial_rotary_factor")}));

// ---- Others with Llama's names

[[maybe_unused]] const bool kGranite =
    enter_family("granite", "Granite 3: the Llama layer with constant factors on its sums", llama_start(),
                 llama_like({attention_bias(), mlp_bias(), factor("embedding_multiplier"),
                             factor("residual_multiplier"), no_effect("logits_scaling", "a factor of the logits"),
                             no_effect("attention_multiplier", "a factor inside attention")}));
[[maybe_unused]] const bool kStableLm = enter_family(
    "stablelm", "StableLM: LayerNorm, gated SiLU, rotary embedding on part of each head",
    changed(llama_start(), [](D& d) { d.norm = OpKind::layer_norm, d.norm_eps = 1e-5, d.rotary_share = 0.25; }),
    llama_like({qkv_bias("use_qkv_bias"), rotary_share("partial_rotary_factor|rope_pct"),
                parallel("use_parallel_residual", false), dropout("hidden_dropout"),
                flag("qk_layernorm", {&D::qk_norm_all}, "normalised queries and keys")}));
[[maybe_unused]] const bool kSmolLm3 = enter_family(
    "smollm3", "SmolLM3: the Llama layer, every fourth without positions, tied",
    changed(llama_start(), [](D& d) { d.tied = true; }),
    llama_like({attention_bias(), mlp_bias(), unturned_layers("no_rope_layers", 4), window("sliding_window"),
                layer_types(), use_window(), no_effect("no_rope_layer_interval", "again no_rope_layers")}));
[[maybe_unused]] const bool kSeedOss = enter_family(
    "seed_oss", "Seed-OSS: the Llama layer with biases on q, k and v",
    changed(llama_start(), [](D& d) { d.qkv_bias = true; }),
    llama_like({qkv_bias(), flag("attention_out_bias", {&D::attention_output_bias}, "a bias behind attention"),
                mlp_bias(), dropout("residual_dropout")}));
[[maybe_unused]] const bool kErnie = enter_family("ernie4_5", "ERNIE 4.5, dense: the Llama layer, tied",
                                                  changed(llama_start(), [](D& d) { d.tied = true; }),
                                                  llama_like({flag("use_bias", kAll, "biases in all projections")}));
[[maybe_unused]] const bool kInternLm2 = enter_family(
    "internlm2", "InternLM2: the Llama layer under other names", changed(llama_start(), [](D& d) { d.plain = true; }),
    llama_like({flag("bias", kAttention, "biases in the attention projections")}));
[[maybe_unused]] const bool kMiMo = enter_family("mimo", "MiMo: Qwen2's layer with modules that predict further tokens",
                                                 changed(llama_start(), [](D& d) { d.qkv_bias = true; }),
                                                 llama_like({attention_bias(),
                                                             given("num_nextn_predict_layers", &D::predict_further,
                                                                   {0, 16}, "modules that predict further tokens", "0"),
                                                             window("sliding_window"), use_window()}));
[[maybe_unused]] const bool kHunyuan = enter_family(
    "hunyuan_v1_dense", "Hunyuan, dense: the Llama layer, normalised queries and keys",
    changed(llama_start(), [](D& d) { d.qk_norm = true; }),
    llama_like({attention_bias(), mlp_bias(), flag("use_qk_norm", {&D::qk_norm}, "normalised queries and keys")}));
[[maybe_unused]] const bool kExaone4 = enter_family(
    "exaone4", "EXAONE 4: norms after the branches, normalised queries and keys, windows in three of four layers",
    changed(llama_start(), [](D& d) { d.residual = Residual::after, d.qk_norm = true; }),
    llama_like({window("sliding_window"), layer_types(), no_effect("sliding_window_pattern", "again layer_types")}));
[[maybe_unused]] const bool kArcee =
    enter_family("arcee", "AFM: the Llama layer with a squared ReLU and no gate",
                 changed(llama_start(), [](D& d) { d.gated = false, d.activation = Activation::squared_relu; }),
                 llama_like({attention_bias(), mlp_bias()}));
[[maybe_unused]] const bool kPersimmon = enter_family(
    "persimmon", "Persimmon: LayerNorm, squared ReLU, half of each head turns, normalised queries and keys",
    changed(gpt_start(), [](D& d) { d.rotary_share = 0.5, d.activation = Activation::squared_relu, d.qk_norm = true; }),
    llama_like({rotary_share("partial_rotary_factor"), dropout("hidden_dropout"),
                flag("qk_layernorm", {&D::qk_norm}, "normalised queries and keys")}));

// ---- Text of models that see

D qwen_vl() {
  return changed(llama_start(), [](D& d) { d.qkv_bias = true; });
}
[[maybe_unused]] const bool kQwen2Vl =
    enter_family("qwen2_vl", "Qwen2-VL: Qwen2's layers; the tower for images is left out", qwen_vl(),
                 llama_like({window("sliding_window"), use_window(), noted("vision_config", "the tower for images")}));
[[maybe_unused]] const bool kQwen2VlText =
    enter_family("qwen2_vl_text", "text of Qwen2-VL", qwen_vl(), llama_like({window("sliding_window"), use_window()}));
[[maybe_unused]] const bool kQwen25Vl =
    enter_family("qwen2_5_vl", "Qwen2.5-VL: Qwen2's layers; the tower for images is left out", qwen_vl(),
                 llama_like({window("sliding_window"), use_window(), noted("vision_config", "the tower for images")}));
[[maybe_unused]] const bool kQwen25VlText = enter_family("qwen2_5_vl_text", "text of Qwen2.5-VL", qwen_vl(),
                                                         llama_like({window("sliding_window"), use_window()}));
[[maybe_unused]] const bool kQwen3Vl =
    enter_family("qwen3_vl_text", "text of Qwen3-VL: Qwen3's layers",
                 changed(llama_start(), [](D& d) { d.qk_norm = true; }), llama_like({attention_bias()}));

// ---- Phi

D phi() {
  return changed(gpt_start(), [](D& d) {
    d.residual = Residual::parallel_shared;
    d.rotary_share = 0.5;
    d.activation = Activation::gelu_tanh;
    d.head_bias = true;
  });
}
[[maybe_unused]] const bool kPhi = enter_family(
    "phi", "Phi-1, 1.5, 2: LayerNorm, GELU, attention and MLP side by side, part of each head turns", phi(),
    llama_like({rotary_share("partial_rotary_factor"), dropout("resid_pdrop"), embedding_dropout("embd_pdrop"),
                must_be("qk_layernorm", false, "normalised queries and keys")}));

// ---- GPT-2's followers

void gpt_j_layer(D& d) {
  d.residual = Residual::parallel_shared;
  d.qkv_bias = d.attention_output_bias = false;
  d.head_bias = true;
  d.activation = Activation::gelu_tanh;
  d.rotary_dim = 64;
}

[[maybe_unused]] const bool kGptJ =
    enter_family("gptj", "GPT-J: LayerNorm, GELU, attention and MLP side by side, part of each head turns",
                 changed(gpt_start(), gpt_j_layer),
                 gpt_sizes({given("rotary_dim", &D::rotary_dim, {2, kMaxWidth}, "elements of a head that turn", "64"),
                            no_effect("scale_attn_weights", "a factor inside attention"),
                            must_be("rotary", true, "other positions")}));
[[maybe_unused]] const bool kCodeGen = enter_family(
    "codegen", "CodeGen: GPT-J's layer", changed(gpt_start(), gpt_j_layer),
    gpt_sizes({given("rotary_dim", &D::rotary_dim, {2, kMaxWidth}, "elements of a head that turn", "64")}));
[[maybe_unused]] const bool kBigCode = enter_family(
    "gpt_bigcode", "StarCoder, SantaCoder: GPT-2's layer with one key and value head",
    changed(gpt_start(), [](D& d) { d.kv_heads = 1, d.tied = true, d.activation = Activation::gelu_tanh; }),
    gpt_sizes(
        {with("multi_query", "one key and value head", "true",
              [](ObjectReader& in, const std::string& name, D& d) { d.kv_heads = in.boolean(name, true) ? 1 : 0; }),
         no_effect("scale_attn_weights", "a factor inside attention"),
         no_effect("attention_softmax_in_fp32", "inside attention"), no_effect("inference_runner", "of generation"),
         no_effect("validate_runner_input", "of generation"), no_effect("pre_allocate_kv_cache", "of generation")}));
[[maybe_unused]] const bool kBloom = enter_family(
    "bloom", "BLOOM: LayerNorm, GELU, linear biases in attention, a norm behind the embedding",
    changed(gpt_start(),
            [](D& d) {
              d.tied = d.embedding_norm = true;
              d.positions = false;
              d.activation = Activation::gelu_tanh;
              d.max_positions = 2048;
              d.simulated_only = {"linear biases in attention (ALiBi)"};
            }),
    gpt_sizes({must_be("apply_residual_connection_post_layernorm", false, "residuals from behind the norm"),
               no_effect("attention_softmax_in_fp32", "inside attention"),
               no_effect("masked_softmax_fusion", "inside attention"), no_effect("bias_dropout_fusion", "of kernels"),
               no_effect("offset_alibi", "inside attention"), no_effect("skip_bias_add", "of kernels"),
               no_effect("skip_bias_add_qkv", "of kernels")}));

/// Learned positions from row 2 on.
D opt() {
  return changed(gpt_start(), [](D& d) { d.tied = true, d.activation = Activation::relu; });
}
[[maybe_unused]] const bool kOpt = enter_family(
    "opt", "OPT: learned positions, LayerNorm, ReLU, biases", opt(),
    common({needed("num_hidden_layers", &D::layers, {1, kMaxLayers}, "layers"),
            needed("hidden_size", &D::hidden, {1, kMaxWidth}, "hidden size"),
            needed("num_attention_heads", &D::heads, {1, kMaxWidth}, "heads"),
            needed("ffn_dim", &D::ffn, {1, kMaxWidth}, "inner size of the MLP"),
            needed("vocab_size", &D::vocabulary, {1, kMaxVocabulary}, "rows of the word table"),
            needed("max_position_embeddings", &D::max_positions, {1, kMaxPositions}, "longest sequence"),
            activation_key("activation_function"), flag("enable_bias", kAll, "biases in all projections"),
            must_be("do_layer_norm_before", true, "norms after the branches, without a last one"),
            no_effect("layer_norm_elementwise_affine", "weights of norms"), dropout("dropout"),
            values_only("layerdrop", "layers left out at random"),
            number("init_std", &D::init_std, {0, 10}, "standard deviation of initial weights"),
            no_effect("activation_dropout", "no class uses it"),
            with("word_embed_proj_dim", "must be hidden_size", "hidden_size",
                 [](ObjectReader& in, const std::string& name, D& d) {
                   if (in.integer(name, {1, kMaxWidth}, d.hidden) != d.hidden)
                     in.fail(name, "words of another size than the layers", "a projection between them is not built");
                   d.position_rows = d.max_positions + 2;
                 })}));

[[maybe_unused]] const bool kFalcon = enter_family(
    "falcon", "Falcon: LayerNorm, GELU, attention and MLP side by side, one or few key and value heads",
    changed(gpt_start(),
            [](D& d) {
              d.tied = true, d.rotary_share = 1, d.max_positions = 2048;
              d.qkv_bias = d.attention_output_bias = d.mlp_bias = false;
            }),
    gpt_sizes(
        {flag("bias", kAll, "biases in all projections"), rope_base("rope_theta"),
         with("ffn_hidden_size", "inner size of the MLP", "4 * hidden_size",
              [](ObjectReader& in, const std::string& name, D& d) {
                d.ffn = in.integer(name, {1, kMaxWidth}, std::min(4 * d.hidden, kMaxWidth));
              }),
         with("multi_query", "one key and value head", "true",
              [](ObjectReader& in, const std::string& name, D& d) { d.kv_heads = in.boolean(name, true) ? 1 : 0; }),
         with("parallel_attn", "attention and MLP side by side", "true",
              [](ObjectReader& in, const std::string& name, D& d) {
                d.residual = in.boolean(name, true) ? Residual::parallel_shared : Residual::sequential;
              }),
         with("new_decoder_architecture", "several key and value heads, a norm for each branch", "false",
              [](ObjectReader& in, const std::string& name, D& d) {
                if (!in.boolean(name, false)) return;
                d.residual = Residual::parallel;
                d.kv_heads = 0;
              }),
         with("num_kv_heads|n_head_kv", "key and value heads of that", "num_attention_heads",
              [](ObjectReader& in, const std::string& name, D& d) {
                in.expect(name);
                if (d.residual == Residual::parallel && in.has(name)) d.kv_heads = in.integer(name, {1, kMaxWidth});
              }),
         with("num_ln_in_parallel_attn", "norms of a layer", "2 of the new ones",
              [](ObjectReader& in, const std::string& name, D& d) {
                if (d.residual == Residual::parallel && in.integer(name, {1, 2}, 2) == 1)
                  d.residual = Residual::parallel_shared;
                in.expect(name);
              }),
         with("alibi", "linear biases in attention instead of rotary embedding", "false",
              [](ObjectReader& in, const std::string& name, D& d) {
                if (!in.boolean(name, false)) return;
                d.rotary_share = 0;
                d.positions = false;
                d.simulated_only.emplace_back("linear biases in attention (ALiBi)");
              })}));

}  // namespace
}  // namespace rehearse
