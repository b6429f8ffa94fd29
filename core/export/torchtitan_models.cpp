// Sizes from pytorch/torchtitan @73a0e6979dd1 (v0.2.2) torchtitan/models/{llama3,qwen3,deepseek_v3,gpt_oss}/__init__.py
// and gpt_oss/model/args.py. Qwen3 and GPT-OSS have no pipelining_fn; update_from_config of DeepSeek-V3's flavors that
// use FlexAttention, and of GPT-OSS, refuses context parallelism. Qwen3's 235B-A22B is left out: its rope_theta is
// 5,000,000 there, and 1,000,000 in the published configuration.

#include "core/export/torchtitan_models.hpp"

#include <algorithm>
#include <iterator>

namespace rehearse::exporting {

namespace {

/// `ffn` is the MLP's inner size, of an expert where there are experts. A vocabulary of 0 is the tokenizer's.
struct Flavor {
  TitanModel model;
  std::int64_t layers, hidden, heads, kv_heads, ffn, vocabulary;
  std::int64_t experts = 0, top_k = 0;
};

const std::vector<Flavor>& flavors() {
  constexpr std::int64_t kQwen = 151936, kDeepSeekV2 = 102400;
  static const std::vector<Flavor> table{
      {{"llama3", "8B"}, 32, 4096, 32, 8, 14336, 128256},
      {{"llama3", "70B"}, 80, 8192, 64, 8, 28672, 128256},
      {{"llama3", "405B"}, 126, 16384, 128, 8, 53248, 128256},
      {{"qwen3", "0.6B", false}, 28, 1024, 16, 8, 3072, kQwen},
      {{"qwen3", "1.7B", false}, 28, 2048, 16, 8, 6144, kQwen},
      {{"qwen3", "4B", false}, 36, 2560, 32, 8, 9728, kQwen},
      {{"qwen3", "8B", false}, 36, 4096, 32, 8, 12288, kQwen},
      {{"qwen3", "14B", false}, 40, 5120, 40, 8, 17408, kQwen},
      {{"qwen3", "32B", false}, 64, 5120, 64, 8, 25600, kQwen},
      {{"qwen3", "30B-A3B", false}, 48, 2048, 32, 4, 768, kQwen, 128, 8},
      {{"deepseek_v3", "16B", true, false}, 27, 2048, 16, 16, 1408, kDeepSeekV2, 64, 6},
      {{"deepseek_v3", "236B", true, false}, 60, 5120, 128, 128, 1536, kDeepSeekV2, 160, 6},
      {{"deepseek_v3", "671B", true, false}, 61, 7168, 128, 128, 2048, 129280, 256, 8},
      {{"gpt_oss", "20b", false, false}, 24, 2880, 64, 8, 2880, 201088, 32, 4},
      {{"gpt_oss", "120b", false, false}, 36, 2880, 64, 8, 2880, 201088, 128, 4},
  };
  return table;
}

bool same_sizes(const Flavor& f, const TransformerConfig& c) {
  const ExpertLayers& e = c.experts;
  return f.layers == c.layers && f.hidden == c.hidden && f.heads == c.heads && f.kv_heads == c.kv_heads &&
         f.vocabulary == c.vocabulary && f.experts == e.routing.experts && f.top_k == e.routing.top_k &&
         f.ffn == (f.experts > 0 ? e.ffn : c.ffn);
}

/// Sizes alone do not tell whether queries and keys are normalised, or attention is latent.
bool same_kind(const Flavor& f, const TransformerConfig& c) {
  const std::string& name = f.model.name;
  return c.predict_further == 0 && (c.window > 0) == (name == "gpt_oss") && c.qk_norm == (name == "qwen3") &&
         (c.latent.kv_rank > 0) == (name == "deepseek_v3") && c.norm == OpKind::rms_norm && c.rotary_dim > 0;
}

}  // namespace

Json torchtitan_parts(const ExportInput& input, const std::string& head) {
  Json out = Json::array();
  if (input.scenario.strategy.pp == 1) return out;
  std::int64_t layer = 0;
  const std::vector<std::int64_t> chunks = chunk_layers(input);
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    Json part = Json::array();
    if (c == 0) part.push_back("tok_embeddings");
    for (std::int64_t k = 0; k < chunks[c]; ++k) part.push_back("layers." + std::to_string(layer++));
    if (c + 1 == chunks.size()) part.insert(part.end(), {Json("norm"), Json(head)});
    out.push_back(std::move(part));
  }
  return out;
}

std::optional<TitanModel> torchtitan_model(const TransformerConfig& config) {
  const auto at = std::find_if(flavors().begin(), flavors().end(),
                               [&](const Flavor& f) { return same_sizes(f, config) && same_kind(f, config); });
  return at == flavors().end() ? std::nullopt : std::optional<TitanModel>(at->model);
}

}  // namespace rehearse::exporting
