// A model's sizes as a configuration in Hugging Face's words, in the family whose layer is the same.

#include <algorithm>
#include <cctype>
#include <cmath>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/import/job/model_of_job.hpp"

namespace rehearse::job {

namespace {

/// What the families' words are made of.
struct Sizes {
  std::int64_t layers, hidden, heads, kv_heads, head_dim, ffn, vocabulary, positions;
  bool rms, rope, alibi, gated, bias, qkv_bias, tied, qk_norm;
  double eps, theta, rope_fraction, attention_dropout, hidden_dropout, init_std;
  std::string activation;
};

bool megatron_like(const std::string& framework) {
  return framework == "megatron-core" || framework == "megatron-deepspeed" || framework == "nemo" ||
         framework == "megatron-bridge" || framework == "gpt-neox";
}

std::int64_t experts(const Draft& d) {
  std::int64_t most = 0;
  for (const std::string& word : d.list("model.experts")) most = std::max<std::int64_t>(most, std::atoll(word.c_str()));
  return most > 1 ? most : 0;
}

std::int64_t kv_heads(const Draft& d, std::int64_t heads) {
  if (d.word("model.head_type") == "multiquery") return 1;
  if (d.has("model.kv_heads_alone")) return d.whole("model.kv_heads_alone", heads);
  if (d.flag("model.grouped")) return d.whole("model.kv_heads", 1);
  return heads;
}

/// megatron/training/arguments.py: 4h, or 8h/3 rounded down to 64 with a gate; Megatron-DeepSpeed has 4h for both.
std::int64_t inner_size(const Draft& d, std::int64_t hidden, bool gated, const std::string& framework) {
  if (d.has("model.ffn")) return d.whole("model.ffn", 0);
  if (d.has("model.expansion"))
    return static_cast<std::int64_t>(d.real("model.expansion", 4) * static_cast<double>(hidden));
  if (gated && framework == "megatron-core") return hidden * 4 * 2 / 3 / 64 * 64;
  return 4 * hidden;
}

/// Rows of the word table that a tokenizer makes, where its name says so; 0: unknown.
std::int64_t tokenizer_size(const Draft& d) {
  const std::string all =
      d.word("model.tokenizer") + " " + d.word("model.tokenizer_name") + " " + d.word("model.vocabulary_file");
  std::string lower;
  for (const unsigned char c : all) lower += static_cast<char>(std::tolower(c));
  const auto has = [&](const char* part) { return lower.find(part) != std::string::npos; };
  if (has("llama3") || has("llama-3")) return 128256;
  if (has("llama2") || has("llama-2") || has("mistral") || has("mixtral") || has("llama")) return 32000;
  if (has("deepseek-v3") || has("deepseek_v3")) return 129280;
  if (has("qwen2") || has("qwen3")) return 151936;
  if (has("gpt-neox") || has("gpt_neox") || has("20b_tokenizer")) return 50277;
  if (has("gpt2")) return 50257;
  return 0;
}

std::int64_t vocabulary(Draft& d, const std::string& framework) {
  // Padding for tensor parallelism is the strategy's; Megatron's own rounds what a tokenizer makes.
  constexpr std::int64_t kUsual = 128;
  std::int64_t rows = d.whole("model.vocabulary", 0);
  const std::int64_t multiple = d.whole("model.vocabulary_multiple", 1);
  if (rows > 0)
    return megatron_like(framework) && multiple > kUsual ? (rows + multiple - 1) / multiple * multiple : rows;
  rows = tokenizer_size(d);
  if (rows <= 0) return multiple > 1024 ? multiple : 0;  // As large as that, it states the vocabulary itself.
  return megatron_like(framework) && multiple > 1 ? (rows + multiple - 1) / multiple * multiple : rows;
}

/// "([0]*3+[1]*58)", "[0,1,1]" or "2" as a number for each layer; empty where it is something else.
std::vector<int> layer_list(std::string text, std::int64_t layers) {
  std::erase_if(text, [](char c) { return c == '\'' || c == '"' || c == ' ' || c == '(' || c == ')'; });
  std::vector<int> out;
  if (!text.empty() && text.find_first_not_of("0123456789") == std::string::npos) {
    const int every = std::max(1, std::atoi(text.c_str()));
    for (std::int64_t k = 0; k < layers; ++k) out.push_back(k % every == 0 ? 1 : 0);
    return out;
  }
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '+' || text[i] == ',') {
      ++i;
      continue;
    }
    if (text[i] != '[') return {};
    std::vector<int> unit;
    for (++i; i < text.size() && text[i] != ']'; ++i)
      if (std::isdigit(static_cast<unsigned char>(text[i])) != 0) unit.push_back(text[i] - '0');
    ++i;
    int times = 1;
    if (i < text.size() && text[i] == '*') {
      times = std::min(10'000, std::atoi(text.c_str() + i + 1));
      for (++i; i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])) != 0;) ++i;
    }
    for (int k = 0; k < times; ++k) out.insert(out.end(), unit.begin(), unit.end());
  }
  return out;
}

/// First layers without experts. Throws Error (usage) where others have none either.
std::int64_t dense_layers(const Draft& d, std::int64_t layers) {
  const Fact* f = d.find("model.expert_layers");
  const std::int64_t interval = d.whole("model.expert_interval", 1);
  std::vector<int> list;
  if (f != nullptr)
    list = layer_list(d.word("model.expert_layers"), layers);
  else if (interval > 1)
    list = layer_list(std::to_string(interval), layers);
  std::int64_t dense = 0;
  while (dense < static_cast<std::int64_t>(list.size()) && list[static_cast<std::size_t>(dense)] == 0) ++dense;
  if (std::find(list.begin() + dense, list.end(), 0) != list.end())
    throw Error(ErrorKind::usage, "only some layers have experts",
                f != nullptr ? d.said("model.expert_layers") : d.said("model.expert_interval"),
                "networks whose layers alternate are not built: only the first layers may be without");
  return dense;
}

Json llama_words(const Sizes& s, const char* family) {
  return {{"model_type", family},
          {"hidden_size", s.hidden},
          {"num_hidden_layers", s.layers},
          {"num_attention_heads", s.heads},
          {"num_key_value_heads", s.kv_heads},
          {"head_dim", s.head_dim},
          {"intermediate_size", s.ffn},
          {"vocab_size", s.vocabulary},
          {"max_position_embeddings", s.positions},
          {"rms_norm_eps", s.eps},
          {"rope_theta", s.theta},
          {"attention_dropout", s.attention_dropout},
          {"initializer_range", s.init_std},
          {"tie_word_embeddings", s.tied}};
}

Json dense_gated(const Sizes& s) {
  if (s.qk_norm) {
    Json out = llama_words(s, "qwen3");
    out["attention_bias"] = s.bias;
    return out;
  }
  if (s.qkv_bias && !s.bias) return llama_words(s, "qwen2");
  Json out = llama_words(s, "llama");
  out["attention_bias"] = s.bias;
  out["mlp_bias"] = s.bias;
  return out;
}

Json gpt2_words(const Sizes& s) {
  return {{"model_type", "gpt2"},
          {"n_embd", s.hidden},
          {"n_layer", s.layers},
          {"n_head", s.heads},
          {"n_inner", s.ffn},
          {"n_positions", s.positions},
          {"vocab_size", s.vocabulary},
          {"layer_norm_epsilon", s.eps},
          {"embd_pdrop", s.hidden_dropout},
          {"attn_pdrop", s.attention_dropout},
          {"resid_pdrop", s.hidden_dropout},
          {"initializer_range", s.init_std},
          {"tie_word_embeddings", s.tied}};
}

Json gpt_neox_words(const Sizes& s, bool parallel) {
  return {{"model_type", "gpt_neox"},
          {"hidden_size", s.hidden},
          {"num_hidden_layers", s.layers},
          {"num_attention_heads", s.heads},
          {"intermediate_size", s.ffn},
          {"vocab_size", s.vocabulary},
          {"max_position_embeddings", s.positions},
          {"layer_norm_eps", s.eps},
          {"rotary_pct", s.rope_fraction},
          {"rotary_emb_base", s.theta},
          {"use_parallel_residual", parallel},
          {"attention_dropout", s.attention_dropout},
          {"hidden_dropout", s.hidden_dropout},
          {"initializer_range", s.init_std},
          {"tie_word_embeddings", s.tied}};
}

Json with_norm(Json out, const Sizes& s, const char* eps) {
  out.erase("rms_norm_eps");
  out[eps] = s.eps;
  return out;
}

Json dense_plain(const Sizes& s, Draft& d) {
  if (s.activation == "squared_relu") {
    Json out = with_norm(llama_words(s, "nemotron"), s, "norm_eps");
    out["partial_rotary_factor"] = s.rope_fraction;
    out["hidden_dropout"] = s.hidden_dropout;
    out["attention_bias"] = s.bias;
    out["mlp_bias"] = s.bias;
    return out;
  }
  const bool parallel = d.flag("model.parallel_residual");
  const bool mha = s.kv_heads == s.heads && s.head_dim * s.heads == s.hidden;
  if (s.alibi && mha && s.ffn % s.hidden == 0) {
    return {{"model_type", "mpt"},
            {"d_model", s.hidden},
            {"n_layers", s.layers},
            {"n_heads", s.heads},
            {"expansion_ratio", s.ffn / s.hidden},
            {"vocab_size", s.vocabulary},
            {"max_seq_len", s.positions},
            {"no_bias", !s.bias},
            {"resid_pdrop", s.hidden_dropout},
            {"emb_pdrop", s.hidden_dropout},
            {"initializer_range", s.init_std},
            {"tie_word_embeddings", s.tied}};
  }
  if (parallel && mha) return gpt_neox_words(s, true);
  if (!s.rope && mha) {
    if (!s.bias) d.notes.push_back("biases of linear layers are counted, which this model has not");
    return gpt2_words(s);
  }
  if (mha && s.bias && s.rope_fraction < 1) return gpt_neox_words(s, false);
  if (!s.rope) d.notes.push_back("learned positions are taken as rotary ones beside grouped key and value heads");
  Json out = with_norm(llama_words(s, "starcoder2"), s, "norm_epsilon");
  out["use_bias"] = s.bias;
  out["embedding_dropout"] = s.hidden_dropout;
  out["residual_dropout"] = s.hidden_dropout;
  return out;
}

void add_routing(Json& out, const Draft& d) {
  if (d.has("model.expert_groups")) {
    out["n_group"] = d.whole("model.expert_groups", 1);
    out["topk_group"] = d.whole("model.group_limit", 1);
  }
  if (d.word("model.router") == "sigmoid") out["scoring_func"] = "sigmoid";
  out["aux_loss_alpha"] = d.real("model.aux_loss", 0);
}

Json latent_words(const Sizes& s, Draft& d, std::int64_t n) {
  Json out = llama_words(s, "deepseek_v3");
  out.erase("head_dim");
  out["num_key_value_heads"] = s.heads;
  const std::int64_t inner = d.whole("model.expert_ffn", s.ffn);
  out.update({{"q_lora_rank", d.whole("model.q_rank", 0)},
              {"kv_lora_rank", d.whole("model.kv_rank", 32)},
              {"qk_nope_head_dim", d.whole("model.nope_dim", 128)},
              {"qk_rope_head_dim", d.whole("model.rope_dim", 64)},
              {"v_head_dim", d.whole("model.v_dim", 128)},
              {"moe_intermediate_size", inner},
              {"n_routed_experts", n},
              {"num_experts_per_tok", d.whole("model.top_k", 2)},
              {"n_shared_experts", inner > 0 ? d.whole("model.shared_ffn", 0) / inner : 0},
              {"first_k_dense_replace", dense_layers(d, s.layers)},
              {"num_nextn_predict_layers", d.whole("model.predict_further", 0)},
              {"routed_scaling_factor", d.real("model.router_scale", 1)},
              {"norm_topk_prob", !d.flag("model.router_before_choice")}});
  add_routing(out, d);
  return out;
}

Json expert_words(const Sizes& s, Draft& d, std::int64_t n) {
  if (d.flag("model.latent")) return latent_words(s, d, n);
  if (!s.gated)
    throw Error(ErrorKind::usage, fmt::format("experts whose activation is {}", s.activation), d.said("model.experts"),
                "experts are built with a gate (SwiGLU): no registered family has others");
  if (const std::int64_t dense = dense_layers(d, s.layers); dense > 0)
    throw Error(ErrorKind::usage, fmt::format("the first {} layers have no experts", dense),
                d.said("model.expert_layers"), "only with latent attention such a network is built (deepseek_v3)");
  if (d.whole("model.shared_ffn", 0) > 0)
    d.notes.push_back(fmt::format("a shared expert of {} is left out: it is built beside latent attention only",
                                  d.whole("model.shared_ffn", 0)));
  const std::int64_t inner = d.whole("model.expert_ffn", s.ffn), top = d.whole("model.top_k", 2);
  if (d.word("model.softmax") == "learnable" || d.flag("model.gpt_oss") || s.activation == "quick_geglu") {
    Json out = llama_words(s, "gpt_oss");
    out.update({{"intermediate_size", inner},
                {"num_local_experts", n},
                {"num_experts_per_tok", top},
                {"attention_bias", s.bias || s.qkv_bias || d.flag("model.gpt_oss")}});
    const std::string window = d.word("model.window", "127,0");
    out["sliding_window"] =
        std::atoll(window.c_str() + std::min(window.size(), window.find_first_of("0123456789"))) + 1;
    if (d.has("model.activation_limit")) out["swiglu_limit"] = d.real("model.activation_limit", 7);
    return out;
  }
  if (s.qk_norm || inner != s.ffn) {
    if (!s.qk_norm) d.notes.push_back("queries and keys are normalised as Qwen3-MoE's, which this model's are not");
    Json out = llama_words(s, "qwen3_moe");
    out.update({{"num_experts", n},
                {"num_experts_per_tok", top},
                {"moe_intermediate_size", inner},
                {"router_aux_loss_coef", d.real("model.aux_loss", 0)},
                {"norm_topk_prob", !d.flag("model.router_before_choice")},
                {"attention_bias", s.bias}});
    return out;
  }
  Json out = llama_words(s, "mixtral");
  out.update(
      {{"num_local_experts", n}, {"num_experts_per_tok", top}, {"router_aux_loss_coef", d.real("model.aux_loss", 0)}});
  return out;
}

Sizes sizes_of(Draft& d, const std::string& framework) {
  Sizes s{};
  s.layers = d.whole("model.layers", 0);
  s.hidden = d.whole("model.hidden", 0);
  s.heads = d.whole("model.heads", 0);
  s.kv_heads = kv_heads(d, s.heads);
  s.activation = d.word("model.activation", "gelu");
  if (d.flag("model.gated") && s.activation != "gelu") s.activation = "swiglu";
  s.gated = s.activation == "swiglu" || s.activation == "quick_geglu" || s.activation == "geglu";
  if (s.activation == "geglu") d.notes.push_back("GEGLU is taken as SwiGLU: the same sizes");
  s.ffn = inner_size(d, s.hidden, s.gated, framework);
  s.head_dim = d.whole("model.head_dim", s.heads > 0 ? s.hidden / s.heads : 0);
  s.positions = std::max(d.whole("model.positions", 0), d.whole("training.sequence_length", 0));
  s.rms = d.word("model.norm", "layer") == "rms";
  const std::string position = d.flag("model.alibi") ? "alibi" : d.word("model.position", "learned");
  s.rope = position == "rope" || position == "none";
  s.alibi = position == "alibi";
  s.bias = d.flag("model.bias", true);
  s.qkv_bias = d.flag("model.qkv_bias");
  s.tied = d.flag("model.tied", true);
  s.qk_norm = d.flag("model.qk_norm") && !d.flag("model.latent");
  s.eps = d.real("model.norm_eps", 1e-5);
  s.theta = d.real("model.rope_theta", 10000);
  s.rope_fraction = std::clamp(d.real("model.rope_fraction", 1), 0.01, 1.0);
  s.attention_dropout = d.real("model.attention_dropout", 0);
  s.hidden_dropout = d.real("model.hidden_dropout", 0);
  s.init_std = d.real("model.init_std", 0.02);
  s.vocabulary = vocabulary(d, framework);
  return s;
}

}  // namespace

Json configuration_of(Draft& d, const std::string& framework) {
  if (d.has("model.decoder"))
    throw Error(ErrorKind::usage, "an encoder and a decoder", d.said("model.decoder"),
                "only stacks of one kind of layer are translated: GPT, Llama and their likes");
  if (d.has("model.hybrid") || d.word("model.spec").find("mamba") != std::string::npos)
    throw Error(ErrorKind::usage, "a hybrid of attention and state spaces",
                d.said(d.has("model.hybrid") ? "model.hybrid" : "model.spec"),
                "name a registered one: --model nemotron_h_8b ('rehearse list models')");
  const Sizes s = sizes_of(d, framework);
  const bool complete = s.layers > 0 && s.hidden > 0 && s.heads > 0;
  if (!complete)
    d.ask("the model",
          "--model NAME ('rehearse list models'), or the sizes that are missing: layers, hidden size and attention "
          "heads");
  if (complete && s.vocabulary <= 0)
    d.ask("the size of the vocabulary", "--vocabulary N (GPT-2's has 50257 words, Llama 3's 128256)");
  if (complete && s.positions <= 0) d.ask("the length of a sequence", "--set training.sequence_length=N");
  if (!complete || s.vocabulary <= 0 || s.positions <= 0) return nullptr;
  if (const std::int64_t n = experts(d); n > 0) return expert_words(s, d, n);
  if (d.flag("model.latent"))
    throw Error(ErrorKind::usage, "latent attention without experts", d.said("model.latent"),
                "it is built in networks with experts (deepseek_v3)");
  if (s.gated) {
    if (!s.rms) d.notes.push_back("LayerNorm is taken as RMSNorm beside a gated MLP: a little less work");
    if (!s.rope) d.notes.push_back("learned positions are taken as rotary ones beside a gated MLP");
    return dense_gated(s);
  }
  if (s.rms) d.notes.push_back("RMSNorm is taken as LayerNorm beside an MLP without a gate: a little more work");
  return dense_plain(s, d);
}

}  // namespace rehearse::job
