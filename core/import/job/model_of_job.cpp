#include "core/import/job/model_of_job.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/config/json_file.hpp"
#include "core/model/hf_config.hpp"
#include "core/model/library.hpp"
#include "core/translate/facts.hpp"
#include "core/translate/language.hpp"

namespace rehearse::job {

namespace {

/// Facts that change no time and no size.
bool idle(const std::string& fact) {
  return fact == "model.positions" || fact == "model.rope_theta" || fact == "model.norm_eps" ||
         fact == "model.init_std" || fact == "model.aux_loss" || fact == "model.z_loss" ||
         fact == "model.router_bias" || fact == "model.router_before_choice" || fact == "model.router_scale";
}

std::map<std::string, std::string> telling(const TransformerConfig& c) {
  std::map<std::string, std::string> out;
  for (const auto& [name, value] : translate::facts_of(c))
    if (!idle(name)) out[name] = value.dump();
  return out;
}

std::optional<TransformerConfig> stack_of(const Json& config, const std::string& origin) {
  try {
    TransformerConfig out = parse_hf_config(nlohmann::json(config), origin);
    return out.causal ? std::optional(std::move(out)) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The registered model that has these sizes; empty where none has.
std::string same_sizes(const TransformerConfig& wanted, const ModelLibrary& library) {
  const auto facts = telling(wanted);
  std::string found;
  std::int64_t nearest = 0;
  for (const std::string& name : library.names()) {
    std::optional<TransformerConfig> c;
    try {
      c = stack_of(Json(load_json(library.find(name).string())), name);
    } catch (const Error&) {
      continue;
    }
    if (!c || c->max_positions < wanted.max_positions || telling(*c) != facts) continue;
    // The one whose context is nearest.
    if (found.empty() || c->max_positions < nearest) found = name, nearest = c->max_positions;
  }
  return found;
}

std::int64_t layers_of(const std::string& name, const ModelLibrary& library) {
  try {
    const auto c = stack_of(Json(load_json(library.find(name).string())), name);
    return c ? c->layers : 0;
  } catch (const Error&) {
    return 0;
  }
}

/// Names under which files state a model, the likeliest first.
std::vector<std::string> stated_names(const Draft& d) {
  std::vector<std::string> out;
  const std::string name = d.word("job.model_name"), flavor = d.word("job.flavor");
  if (!name.empty() && !flavor.empty()) out.push_back(name + "-" + flavor);
  for (const char* fact : {"model.name", "job.recipe_name", "job.restored"})
    if (d.has(fact)) out.push_back(d.word(fact));
  return out;
}

/// The model, or one of the same sizes that takes sequences of this length.
std::string with_context(const std::string& name, std::int64_t length, const ModelLibrary& library) {
  std::optional<TransformerConfig> c;
  try {
    c = stack_of(Json(load_json(library.find(name).string())), name);
  } catch (const Error&) {
    return name;
  }
  if (!c || length <= c->max_positions) return name;
  c->max_positions = length;
  const std::string longer = same_sizes(*c, library);
  return longer.empty() ? name : longer;
}

JobModel named(Draft& d, const ModelLibrary& library) {
  // The largest of a family, by the number of parameters that torchtitan's flavors carry.
  static const std::map<std::string, std::string> kWhole{{"deepseek_v3-671B", "deepseek_v3"},
                                                         {"deepseek_v2-236B", "deepseek_v2"}};
  for (const std::string& name : stated_names(d)) {
    bool exact = true;
    const auto whole = kWhole.find(name);
    const std::string found = whole != kWhole.end() ? whole->second : registered_model(name, library.names(), exact);
    if (found.empty()) continue;
    if (const std::string longer = with_context(found, d.whole("training.sequence_length", 0), library);
        longer != found) {
      d.notes.push_back(fmt::format("{} has the sizes of {} and sequences that are long enough", longer, found));
      return {longer, layers_of(longer, library)};
    }
    if (!exact)
      d.notes.push_back(fmt::format("{} is taken for the registered model {}: --model says otherwise", name, found));
    return {found, layers_of(found, library)};
  }
  const std::vector<std::string> names = stated_names(d);
  if (!names.empty())
    d.ask(fmt::format("the model '{}', which is not registered", names.front()),
          "--model NAME ('rehearse list models') or --model config.json, its file from the hub");
  return {};
}

/// "n_embd=8192,n_layer=64": what run_clm.py changes of a configuration.
void take_overrides(Draft& d) {
  static const std::map<std::string, std::string> kFacts{{"n_embd", "model.hidden"},
                                                         {"n_layer", "model.layers"},
                                                         {"n_head", "model.heads"},
                                                         {"n_positions", "model.positions"},
                                                         {"hidden_size", "model.hidden"},
                                                         {"num_hidden_layers", "model.layers"},
                                                         {"num_attention_heads", "model.heads"},
                                                         {"vocab_size", "model.vocabulary"},
                                                         {"n_ctx", "training.sequence_length"},
                                                         {"intermediate_size", "model.ffn"},
                                                         {"num_key_value_heads", "model.kv_heads_alone"}};
  std::string text = d.word("model.overrides");
  std::erase_if(text, [](char c) { return c == '"' || c == '\'' || c == ' '; });
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size()), sign = text.find('=', at);
    if (sign < end) {
      const auto fact = kFacts.find(text.substr(at, sign - at));
      const std::string value = text.substr(sign + 1, end - sign - 1);
      if (fact != kFacts.end() && !value.empty() && value.find_first_not_of("0123456789") == std::string::npos)
        d.replace(fact->second, std::atoll(value.c_str()));
      if (text.substr(at, sign - at) == "gradient_checkpointing" && (value == "true" || value == "True"))
        d.follow("strategy.recompute", "full");
    }
    at = end + 1;
  }
}

/// llm.c's "d12" and "gpt3:c768": train_gpt2.cu of @f1e2ace651495.
void take_descriptor(Draft& d) {
  const std::string text = d.word("job.descriptor");
  if (text.empty()) return;
  static const std::map<int, std::pair<int, int>> kDepths{{6, {384, 6}},    {12, {768, 12}},  {24, {1024, 16}},
                                                          {36, {1280, 20}}, {48, {1600, 25}}, {60, {1920, 30}},
                                                          {72, {2880, 30}}, {84, {3456, 36}}};
  static const std::map<int, std::pair<int, int>> kWidths{{384, {6, 64}},    {768, {12, 64}},   {1024, {24, 64}},
                                                          {1536, {24, 96}},  {2048, {24, 128}}, {2560, {32, 80}},
                                                          {4096, {32, 128}}, {5140, {40, 128}}, {12288, {96, 128}}};
  const bool gpt3 = text.starts_with("gpt3:c");
  const int number = std::atoi(text.c_str() + std::min(text.size(), gpt3 ? std::size_t{6} : text.find('d') + 1));
  if (gpt3 && kWidths.contains(number)) {
    d.follow("model.layers", kWidths.at(number).first);
    d.follow("model.hidden", number);
    d.follow("model.heads", number / kWidths.at(number).second);
    d.follow("model.positions", 2048);
  } else if (kDepths.contains(number)) {
    d.follow("model.layers", number);
    d.follow("model.hidden", kDepths.at(number).first);
    d.follow("model.heads", kDepths.at(number).second);
    d.follow("model.positions", 1024);
  }
  d.follow("model.vocabulary", 50304);
  d.follow("training.sequence_length", 1024);
}

}  // namespace

JobModel stated_model(const std::string& name, const std::filesystem::path& models) {
  const ModelLibrary library(models);
  const std::filesystem::path file = library.find(name);
  const bool registered = name.find('/') == std::string::npos && !name.ends_with(".json");
  return {Json(registered ? name : std::filesystem::absolute(file).lexically_normal().generic_string()),
          layers_of(name, library)};
}

JobModel model_of(Draft& d, const std::string& framework, const std::filesystem::path& models) {
  const ModelLibrary library(models);
  take_overrides(d);
  take_descriptor(d);
  const bool sizes = d.has("model.layers") && d.has("model.hidden");
  if (!sizes && !stated_names(d).empty()) return named(d, library);
  for (const translate::Fallback& f : translate::languages().at("megatron").value.fallbacks)
    if (f.ours.starts_with("model.") && framework.starts_with("megatron")) d.follow(f.ours, f.value);
  if (framework == "nemo" || framework == "gpt-neox")
    for (const auto& [name, value] :
         {std::pair<const char*, Json>{"model.vocabulary_multiple", 128}, {"model.tied", true}})
      d.follow(name, value);
  Json config = configuration_of(d, framework);
  if (config.is_null()) return {};
  // What no network has is said now, where the file is known.
  const TransformerConfig c = parse_hf_config(nlohmann::json(config), "the model that the job states");
  if (const std::string name = same_sizes(c, library); !name.empty()) return {name, c.layers};
  return {std::move(config), c.layers};
}

}  // namespace rehearse::job
