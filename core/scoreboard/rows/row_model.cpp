// Sizes of the network: a row that names hidden size, layers and heads is built from them, whatever it calls the model;
// a known name is looked up.

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/scoreboard/rows/row_scenario.hpp"
#include "core/scoreboard/rows/stated_keys.hpp"

namespace rehearse {

namespace {

using nlohmann::json;

constexpr std::int64_t kMostLayers = 10'000, kMostWidth = 4'000'000;

RowSkipped unknown_model(RowFields& f) {
  return RowSkipped("model unknown", f.text("model") +
                                         ": `rehearse list models` has those known by name; others need model_family, "
                                         "hidden, layers, heads, ffn and vocab");
}

/// Words of architectures that no sizes tell from a GPT or a Llama.
constexpr std::array<const char*, 9> kOtherKinds{"mamba", "jamba", "rwkv", "hyena", "bert",
                                                 "t5",    "vit",   "moe",  "retnet"};

std::string family_of_type(const std::string& type) {
  for (const char* llama : {"llama", "mistral", "qwen2", "qwen3", "phi3"})
    if (type == llama) return "llama";
  return type == "gpt2" || type == "gpt_neox" || type == "nemotron" || type == "mpt" || type == "mixtral"
             ? type
             : std::string();
}

/// A GPT's MLP is four hidden sizes wide, a gated one another number. The row counts in no error figure.
std::string family_by_sizes(RowFields& f) {
  const std::string name = f.text("model") + " " + f.text("arch");
  if (std::any_of(kOtherKinds.begin(), kOtherKinds.end(), [&](const char* kind) { return holds(name, kind); }))
    return {};
  const auto hidden = f.whole("hidden", kMostWidth);
  if (!hidden || !f.whole("heads", kMostWidth) || !f.whole("layers", kMostLayers)) return {};
  const std::string family = f.whole("ffn", kMostWidth).value_or(4 * *hidden) == 4 * *hidden ? "gpt2" : "llama";
  f.guess("model_family", family, "its sizes: a GPT has an MLP of four hidden sizes, a Llama another");
  return family;
}

std::string family_of(RowFields& f, const KnownModel* known) {
  if (const std::string family = f.text("model_family"); !family.empty()) return family;
  const std::string name = f.text("model") + " " + f.text("arch");
  if (holds(name, "pythia") || holds(name, "neox")) return "gpt_neox";
  for (const char* gpt : {"gpt-2", "gpt2", "gpt-3", "gpt3", "gpt "})
    if (holds(name, gpt) && !holds(name, "gpt oss") && !holds(name, "gpt-oss")) return "gpt2";
  if (holds(name, "mpt")) return "mpt";
  if (holds(name, "bert")) return "bert";
  if (holds(name, "nemotron4") || holds(name, "nemotron-4")) return "nemotron";
  for (const char* llama : {"llama", "mistral", "qwen2", "yi-"})
    if (holds(name, llama)) return "llama";
  return known != nullptr ? family_of_type(known->model_type) : std::string();
}

json gpt(RowFields& f, bool mpt, std::int64_t sequence) {
  const auto hidden = f.needed("hidden", kMostWidth);
  json c{{"model_type", mpt ? "mpt" : "gpt2"}};
  const double dropout = f.number("dropout", 1).value_or(0.0);
  const auto vocabulary = f.needed("vocab");
  const auto ffn = f.whole("ffn", kMostWidth).value_or(4 * hidden);
  if (mpt) {
    c.update({{"d_model", hidden},
              {"n_layers", f.needed("layers", kMostLayers)},
              {"n_heads", f.needed("heads", kMostWidth)},
              {"max_seq_len", sequence},
              {"vocab_size", vocabulary},
              {"no_bias", true},
              {"resid_pdrop", dropout},
              {"emb_pdrop", dropout}});
    if (ffn % hidden != 0)
      throw RowSkipped("model unknown", fmt::format("ffn {} is no multiple of hidden {}", ffn, hidden));
    c["expansion_ratio"] = ffn / hidden;
    return c;
  }
  c.update({{"n_embd", hidden},
            {"n_layer", f.needed("layers", kMostLayers)},
            {"n_head", f.needed("heads", kMostWidth)},
            {"n_positions", sequence},
            {"n_inner", ffn},
            {"vocab_size", vocabulary},
            {"embd_pdrop", dropout},
            {"attn_pdrop", dropout},
            {"resid_pdrop", dropout},
            {"tie_word_embeddings", f.truth("tied_embeddings")}});
  return c;
}

json llama(RowFields& f, std::int64_t sequence) {
  const auto heads = f.needed("heads", kMostWidth);
  json c{{"model_type", "llama"},
         {"hidden_size", f.needed("hidden", kMostWidth)},
         {"num_hidden_layers", f.needed("layers", kMostLayers)},
         {"num_attention_heads", heads},
         {"num_key_value_heads", f.whole("kv_heads", kMostWidth).value_or(heads)},
         {"intermediate_size", f.needed("ffn", kMostWidth)},
         {"vocab_size", f.needed("vocab")},
         {"max_position_embeddings", sequence},
         {"tie_word_embeddings", f.truth("tied_embeddings")}};
  if (const auto d = f.whole("head_dim", kMostWidth)) c["head_dim"] = *d;
  return c;
}

json neox(RowFields& f, std::int64_t sequence) {
  const auto hidden = f.needed("hidden", kMostWidth);
  return {{"model_type", "gpt_neox"},
          {"hidden_size", hidden},
          {"num_hidden_layers", f.needed("layers", kMostLayers)},
          {"num_attention_heads", f.needed("heads", kMostWidth)},
          {"intermediate_size", f.whole("ffn", kMostWidth).value_or(4 * hidden)},
          {"vocab_size", f.needed("vocab")},
          {"max_position_embeddings", sequence},
          {"tie_word_embeddings", f.truth("tied_embeddings")}};
}

json nemotron(RowFields& f, std::int64_t sequence) {
  json c = llama(f, sequence);
  c["model_type"] = "nemotron";
  c["hidden_act"] = "relu2";
  return c;
}

/// Layers with nothing but routed experts for an MLP.
json mixtral(RowFields& f, std::int64_t sequence) {
  json c = llama(f, sequence);
  c["model_type"] = "mixtral";
  c["num_local_experts"] = f.needed("experts", 65'536);
  c["num_experts_per_tok"] = f.needed("experts_per_token", 65'536);
  return c;
}

json bert(RowFields& f, std::int64_t sequence) {
  const auto hidden = f.needed("hidden", kMostWidth);
  const double dropout = f.number("dropout", 1).value_or(0.0);
  return {{"model_type", "bert"},
          {"hidden_size", hidden},
          {"num_hidden_layers", f.needed("layers", kMostLayers)},
          {"num_attention_heads", f.needed("heads", kMostWidth)},
          {"intermediate_size", f.whole("ffn", kMostWidth).value_or(4 * hidden)},
          {"vocab_size", f.needed("vocab")},
          {"max_position_embeddings", std::max<std::int64_t>(512, sequence)},
          {"attention_probs_dropout_prob", dropout},
          {"hidden_dropout_prob", dropout}};
}

/// A network of images by its name, in the variant that the row states: there are no sizes.
void map_images(RowFields& f, const KnownModels& models, const KnownModel& known, RowJob& job) {
  json config = json::parse(models.configuration(known));
  const json shipped = config;
  for (const char* variant : {"downsample_in_bottleneck", "aux_logits"})
    if (!f.text(variant).empty()) config[variant] = f.truth(variant);
  if (config == shipped)
    job.scenario.model.name = known.name;
  else
    job.scenario.model.inline_json = config.dump();
  job.model_kind = "images";
  job.scenario.training.sequence_length = 0;
  if (const auto pixels = f.whole("image_size", 100'000)) {
    const std::string text = fmt::format("{}", *pixels);
    for (const char* key : {"training.image_height", "training.image_width"})
      StatedKeys(f, job.scenario).put(key, text);
  }
}

/// First layers without experts, where the model has such: all but the row's `moe_layers`.
std::int64_t dense_layers(RowFields& f, const KnownModel& known, std::int64_t layers) {
  const auto routed = f.whole("moe_layers", kMostLayers);
  if (!routed || known.dense_layers == 0) return known.dense_layers;
  if (*routed > layers)
    throw RowSkipped("contradiction in the row", fmt::format("moe_layers({}) > layers({})", *routed, layers));
  return layers - *routed;
}

}  // namespace

void map_model(RowFields& f, const KnownModels& models, RowJob& job) {
  const KnownModel* const known = models.find(f.text("model"));
  if (known != nullptr && known->images) return map_images(f, models, *known, job);
  job.scenario.training.sequence_length = f.needed("seq_len", 100'000'000);
  const auto sequence = job.scenario.training.sequence_length;
  const bool experts = f.whole("experts").value_or(1) > 1;
  std::string family = family_of(f, known);
  const bool sized = f.whole("hidden", kMostWidth) && (!experts || family == "mixtral");
  job.model_kind = experts || (!sized && known != nullptr && known->experts) ? "experts" : "dense";
  if (!sized) {
    if (known == nullptr) throw unknown_model(f);
    job.layers = f.whole("layers", kMostLayers).value_or(known->layers);
    const std::int64_t dense = dense_layers(f, *known, job.layers);
    if (job.layers != known->layers || dense != known->dense_layers || (known->rotary && sequence > known->positions))
      job.scenario.model.inline_json = models.resized(*known, sequence, job.layers, dense);
    else
      job.scenario.model.name = known->name;
    return;
  }
  if (family.empty() && !experts) family = family_by_sizes(f);
  json config;
  if (experts)
    config = mixtral(f, sequence);
  else if (family == "gpt2" || family == "mpt")
    config = gpt(f, family == "mpt", sequence);
  else if (family == "llama")
    config = llama(f, sequence);
  else if (family == "nemotron")
    config = nemotron(f, sequence);
  else if (family == "gpt_neox")
    config = neox(f, sequence);
  else if (family == "bert")
    config = bert(f, sequence);
  else
    throw unknown_model(f);
  job.layers = f.needed("layers", kMostLayers);
  if (family == "llama" || experts)
    StatedKeys(f, job.scenario).truth("merged_projections", "framework.merged_projections");
  job.scenario.model.inline_json = config.dump();
}

}  // namespace rehearse
