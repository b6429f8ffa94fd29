#include "core/scoreboard/rows/known_models.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/base/characters.hpp"
#include "core/config/json_file.hpp"

namespace rehearse {

namespace {

using nlohmann::json;

constexpr const char* kDenseKey = "first_k_dense_replace";
constexpr std::array<const char*, 3> kLayerKeys{"num_hidden_layers", "n_layer", "n_layers"};

/// Other names of shipped models.
constexpr std::array<std::pair<const char*, const char*>, 15> kOthers{
    {{"llama3.1_405b", "llama3_405b"},
     {"llama3.1_70b", "llama3_70b"},
     {"llama3.3_70b", "llama3_70b"},
     {"llama1_7b", "llama_7b"},
     {"llama1_13b", "llama_13b"},
     {"llama_30b", "llama_33b"},
     {"llama1_65b", "llama_65b"},
     {"deepseek_v3(w/o mtp)", "deepseek_v3_without_mtp"},
     {"qwen3_235b", "qwen3_235b_a22b"},
     {"qwen3_30b", "qwen3_30b_a3b"},
     {"megatron_turing_nlg_530b", "megatron_530b"},
     {"nemotron_3_nano", "nemotron_3_nano_30b_a3b"},
     {"nemotron_3_super", "nemotron_3_super_120b_a12b"},
     {"nemotron_3_ultra_550b_a55b", "nemotron_3_ultra"},
     {"nemotron_3_nano_30b", "nemotron_3_nano_30b_a3b"}}};

/// Words behind a model's name that make it another one's.
constexpr std::array<const char*, 9> kOtherSizes{"lite", "xl",   "small", "medium", "large",
                                                 "mini", "tiny", "nano",  "distill"};

bool number(const std::string& word) { return is_digit(word.front()); }

/// Words of letters and groups of digits: marks part them, and a letter a digit.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> out;
  char before = ' ';
  for (const char c : text) {
    if (is_letter(c) || is_digit(c)) {
      const bool goes_on = is_letter(c) ? is_letter(before) : is_digit(before);
      if (!goes_on) out.emplace_back();
      out.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    before = c;
  }
  return out;
}

/// Words `from` to `to` in one, with a point between groups of digits: "deepseek v3" and "DeepSeekV3" are alike, "3 18"
/// and "3.1 8" are not.
std::string joined(const std::vector<std::string>& words, std::size_t from, std::size_t to) {
  std::string out;
  for (std::size_t i = from; i < to; ++i) {
    if (i > from && number(words[i - 1]) && number(words[i])) out += '.';
    out += words[i];
  }
  return out;
}

bool one_of(const std::string& word, std::span<const char* const> list) {
  return std::any_of(list.begin(), list.end(), [&](const char* w) { return word == w; });
}

/// Whether parameters are counted at `i`: "7B", "1.5 billion"; "4M tokens" are none.
bool size_at(const std::vector<std::string>& words, std::size_t i) {
  constexpr std::array<const char*, 6> kUnits{"b", "m", "t", "billion", "million", "trillion"};
  if (!number(words[i]) || i + 1 >= words.size() || !one_of(words[i + 1], kUnits)) return false;
  return i + 2 >= words.size() || !words[i + 2].starts_with("token");
}

/// Whether words `from` to `to`, which spell a model, mean it: no other size stands beside them, and nothing that makes
/// them another name.
bool means(const std::vector<std::string>& words, std::size_t from, std::size_t to) {
  if (to < words.size() && (one_of(words[to], kOtherSizes) || (number(words[to - 1]) && number(words[to]))))
    return false;
  for (std::size_t i = 0; i < words.size(); ++i)
    if ((i < from || i >= to) && size_at(words, i)) return false;
  return true;
}

bool names(const std::vector<std::string>& words, const std::string& spelling) {
  for (std::size_t from = 0; from < words.size(); ++from)
    for (std::size_t to = from + 1; to <= words.size(); ++to)
      if (joined(words, from, to) == spelling && means(words, from, to)) return true;
  return false;
}

std::string spelled(std::string_view name) {
  const auto words = words_of(name);
  return joined(words, 0, words.size());
}

bool convolves(const Network& network) {
  return std::any_of(network.blocks.begin(), network.blocks.end(), [](const BlockSpec& block) {
    return std::any_of(block.ops.begin(), block.ops.end(),
                       [](const OpSpec& op) { return op.kind == OpKind::convolution; });
  });
}

KnownModel described(const std::string& name, const json& config) {
  KnownModel out;
  out.name = name;
  out.model_type = config.value("model_type", "");
  out.positions = config.value("max_position_embeddings", std::int64_t{0});
  out.rotary = config.contains("rope_theta") || config.contains("hybrid_override_pattern");
  for (const char* key : kLayerKeys) out.layers = config.value(key, out.layers);
  out.dense_layers = config.value(kDenseKey, out.dense_layers);
  for (const char* key : {"num_local_experts", "n_routed_experts", "num_experts"})
    out.experts = out.experts || config.contains(key);
  return out;
}

}  // namespace

KnownModels::KnownModels(const ModelLibrary& library) : library_(&library) {
  for (const std::string& name : library.names()) {
    KnownModel model = described(name, load_json(library.find(name).string()));
    model.images = model.layers == 0 && convolves(library.load(name));
    if (model.layers == 0 && !model.images) continue;
    models_.push_back(std::move(model));
    spellings_.push_back({spelled(name), models_.size() - 1});
  }
  for (const auto& [other, name] : kOthers) {
    const auto at =
        std::find_if(models_.begin(), models_.end(), [n = name](const KnownModel& m) { return m.name == n; });
    if (at != models_.end()) spellings_.push_back({spelled(other), static_cast<std::size_t>(at - models_.begin())});
  }
  std::stable_sort(spellings_.begin(), spellings_.end(),
                   [](const Spelling& a, const Spelling& b) { return a.letters.size() > b.letters.size(); });
}

const KnownModel* KnownModels::find(std::string_view text) const {
  const auto words = words_of(text);
  const auto at =
      std::find_if(spellings_.begin(), spellings_.end(), [&](const Spelling& s) { return names(words, s.letters); });
  return at == spellings_.end() ? nullptr : &models_[at->model];
}

std::string KnownModels::configuration(const KnownModel& model) const {
  return load_json(library_->find(model.name).string()).dump();
}

std::string KnownModels::resized(const KnownModel& model, std::int64_t positions, std::int64_t layers,
                                 std::int64_t dense_layers) const {
  json config = load_json(library_->find(model.name).string());
  if (model.rotary) config["max_position_embeddings"] = std::max(positions, model.positions);
  for (const char* key : kLayerKeys)
    if (config.contains(key)) config[key] = layers;
  if (config.contains(kDenseKey)) config[kDenseKey] = dense_layers;
  return config.dump();
}

}  // namespace rehearse
