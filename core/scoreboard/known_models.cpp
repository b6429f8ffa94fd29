#include "core/scoreboard/known_models.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/config/json_file.hpp"

namespace rehearse {

namespace {

using nlohmann::json;

/// Other names of shipped models.
constexpr std::array<std::pair<const char*, const char*>, 12> kOthers{{{"llama3.1_405b", "llama3_405b"}, {"llama3.1_70b", "llama3_70b"}, {"llama3.3_70b", "llama3_70b"},
    {"llama1_7b", "llama_7b"}, {"llama1_13b", "llama_13b"}, {"llama_30b", "llama_33b"}, {"llama1_65b", "llama_65b"}, {"deepseek_v3(w/o mtp)", "deepseek_v3_without_mtp"},
    {"qwen3_235b", "qwen3_235b_a22b"}, {"qwen3_30b", "qwen3_30b_a3b"}, {"gpt3", "gpt3_175b"}, {"megatron_turing_nlg_530b", "megatron_530b"}}};

bool letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// A name without its marks, and for each letter whether one stood before it.
struct Spelled {
  std::string letters;
  std::vector<bool> parted;
  explicit Spelled(std::string_view text) {
    bool mark = true;
    for (const char c : text) {
      if (letter(c) || digit(c)) letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c))), parted.push_back(mark);
      mark = !letter(c) && !digit(c);
    }
  }
  /// Whether a word may begin at `i`, or end before it.
  [[nodiscard]] bool boundary(std::size_t i) const { return i == 0 || i == letters.size() || parted[i] || letter(letters[i - 1]) != letter(letters[i]); }
  /// Whether digits and then a b or m, for 10^9 or 10^6 parameters, stand between `from` and `to`.
  [[nodiscard]] bool size_between(std::size_t from, std::size_t to) const {
    for (std::size_t i = from; i + 1 < to; ++i)
      if (digit(letters[i]) && (letters[i + 1] == 'b' || letters[i + 1] == 'm') && boundary(i + 2)) return true;
    return false;
  }
  /// Whether `name` stands in it as words of its own, and no other size beside it.
  [[nodiscard]] bool names(const std::string& name) const {
    for (std::size_t at = letters.find(name); at != std::string::npos; at = letters.find(name, at + 1)) {
      const std::size_t end = at + name.size();
      if (boundary(at) && boundary(end) && !size_between(0, at) && !size_between(end, letters.size())) return true;
    }
    return false;
  }
};

KnownModel described(const std::string& name, const json& config) {
  KnownModel out;
  out.name = name;
  out.model_type = config.value("model_type", "");
  out.positions = config.value("max_position_embeddings", std::int64_t{0});
  out.rotary = config.contains("rope_theta");
  for (const char* key : {"num_hidden_layers", "n_layer", "n_layers"}) out.layers = config.value(key, out.layers);
  for (const char* key : {"num_local_experts", "n_routed_experts", "num_experts"}) out.experts = out.experts || config.contains(key);
  return out;
}

}  // namespace

KnownModels::KnownModels(const ModelLibrary& library) : library_(&library) {
  for (const std::string& name : library.names()) {
    models_.push_back(described(name, load_json(library.find(name).string())));
    spellings_.push_back({Spelled(name).letters, models_.size() - 1});
  }
  for (const auto& [other, name] : kOthers) {
    const auto at = std::find_if(models_.begin(), models_.end(), [n = name](const KnownModel& m) { return m.name == n; });
    if (at != models_.end()) spellings_.push_back({Spelled(other).letters, static_cast<std::size_t>(at - models_.begin())});
  }
  std::stable_sort(spellings_.begin(), spellings_.end(), [](const Spelling& a, const Spelling& b) { return a.letters.size() > b.letters.size(); });
}

const KnownModel* KnownModels::find(std::string_view text) const {
  const Spelled spelled(text);
  const auto at = std::find_if(spellings_.begin(), spellings_.end(), [&](const Spelling& s) { return spelled.names(s.letters); });
  return at == spellings_.end() ? nullptr : &models_[at->model];
}

std::string KnownModels::lengthened(const KnownModel& model, std::int64_t positions) const {
  json config = load_json(library_->find(model.name).string());
  config["max_position_embeddings"] = positions;
  return config.dump();
}

}  // namespace rehearse
