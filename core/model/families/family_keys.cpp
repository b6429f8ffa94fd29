#include "core/model/families/family_keys.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/index.hpp"

namespace rehearse::family {
namespace {

/// Whether a value turns something on.
bool matters(const nlohmann::json& v) {
  if (v.is_null() || v == false) return false;
  if (v.is_number()) return v != 0 && v != 1;
  if (v.is_string()) return !v.get_ref<const std::string&>().empty();
  return !v.is_structured() || !v.empty();
}

/// A list with an entry for each layer, or nothing.
const nlohmann::json* list_of_layers(ObjectReader& in, const std::string& name, const FamilyDraft& d) {
  const nlohmann::json* list = in.raw(name);
  if (list == nullptr || (list->is_array() && list->empty())) return nullptr;
  if (!list->is_array() || static_cast<std::int64_t>(list->size()) < d.layers)
    in.fail(name, "no list with an entry for each layer", fmt::format("there are {} layers", d.layers));
  return list;
}

std::vector<bool> for_layers(const FamilyDraft& d, const std::function<bool(std::int64_t)>& has) {
  std::vector<bool> out;
  for (std::int64_t i = 0; i < d.layers; ++i) out.push_back(has(i));
  return out;
}

struct NamedActivation {
  std::string_view name;
  Activation activation;
};
constexpr std::array<NamedActivation, 11> kActivations{{{"silu", Activation::silu},
                                                        {"swish", Activation::silu},
                                                        {"swiglu", Activation::silu},
                                                        {"gelu", Activation::gelu},
                                                        {"gelu_new", Activation::gelu_tanh},
                                                        {"gelu_fast", Activation::gelu_tanh},
                                                        {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                                        {"geglu", Activation::gelu},
                                                        {"relu", Activation::relu},
                                                        {"relu2", Activation::squared_relu},
                                                        {"squared_relu", Activation::squared_relu}}};

}  // namespace

FamilyKey with(std::string key, std::string meaning, std::string fallback,
               std::function<void(ObjectReader&, const std::string&, FamilyDraft&)> read) {
  return {std::move(key), std::move(meaning), std::move(fallback), std::move(read)};
}

FamilyKey flag(std::string key, std::vector<bool TransformerConfig::*> targets, std::string meaning) {
  return with(std::move(key), std::move(meaning), {},
              [targets = std::move(targets)](ObjectReader& in, const std::string& name, FamilyDraft& d) {
                for (bool TransformerConfig::*target : targets) d.*target = in.boolean(name, d.*target);
              });
}

FamilyKey activation_key(std::string key) {
  return with(std::move(key), "silu, gelu, its tanh approximations, relu or relu2", {},
              [](ObjectReader& in, const std::string& name, FamilyDraft& d) {
                in.expect(name);
                if (!in.has(name)) return;
                std::vector<std::string> names;
                for (const NamedActivation& a : kActivations) names.emplace_back(a.name);
                const std::string chosen = in.choice(name, names);
                for (const NamedActivation& a : kActivations)
                  if (a.name == chosen) d.activation = a.activation;
              });
}

FamilyKey rotary_share(std::string key) {
  return number(std::move(key), &FamilyDraft::rotary_share, {0.0, 1.0},
                "fraction of each head that rotary embedding turns");
}

FamilyKey rope_base(std::string key) {
  return with(std::move(key), "base of the rotary angles, here or in rope_parameters", {},
              [](ObjectReader& in, const std::string& name, FamilyDraft& d) {
                const double fallback = d.rope_theta > 0 ? d.rope_theta : 1e4;
                d.rope_theta = in.number(name, {1.0, 1e12}, fallback);
                const nlohmann::json* nested = in.raw("rope_parameters");
                if (!in.has(name) && nested != nullptr && nested->is_object() && nested->contains("rope_theta"))
                  d.rope_theta = in.object("rope_parameters").number("rope_theta", {1.0, 1e12});
              });
}

FamilyKey window(std::string key) {
  return given(std::move(key), &FamilyDraft::window, {1, kMaxPositions}, "tokens that windowed layers attend to",
               "none");
}

FamilyKey layer_types(std::string key) {
  return with(std::move(key), "for each layer sliding_attention, chunked_attention or full_attention", "all alike",
              [](ObjectReader& in, const std::string& name, FamilyDraft& d) {
                const nlohmann::json* list = list_of_layers(in, name, d);
                if (list == nullptr) return;
                d.windowed = for_layers(d, [&](std::int64_t i) {
                  const nlohmann::json& type = nth(*list, i);
                  if (type == "full_attention") return false;
                  if (type != "sliding_attention" && type != "chunked_attention")
                    in.fail(name, fmt::format("layer {} is {}", i, describe_value(type)),
                            "layers of attention to all tokens or to a window are built");
                  return true;
                });
              });
}

FamilyKey window_pattern(std::string key, std::int64_t fallback) {
  return with(std::move(key), "every so-manieth layer attends to all tokens, the others to the window",
              fmt::format("{}", fallback), [=](ObjectReader& in, const std::string& name, FamilyDraft& d) {
                const std::int64_t n = in.integer(name, {1, kMaxLayers}, fallback);
                if (d.windowed.empty()) d.windowed = for_layers(d, [n](std::int64_t i) { return (i + 1) % n != 0; });
              });
}

FamilyKey unturned_layers(std::string key, std::int64_t interval) {
  return with(std::move(key), "a 1 for each layer with rotary embedding", fmt::format("every {}th has none", interval),
              [=](ObjectReader& in, const std::string& name, FamilyDraft& d) {
                const nlohmann::json* list = list_of_layers(in, name, d);
                d.unturned = for_layers(
                    d, [&](std::int64_t i) { return list == nullptr ? (i + 1) % interval == 0 : nth(*list, i) == 0; });
              });
}

FamilyKey first_dense(std::string key) {
  return with(std::move(key), "first layers with a plain MLP", "0",
              [](ObjectReader& in, const std::string& name, FamilyDraft& d) {
                const std::int64_t n = in.integer(name, {0, kMaxLayers}, 0);
                if (n > 0) d.dense = for_layers(d, [n](std::int64_t i) { return i < n; });
              });
}

FamilyKey routed_every(std::string key) {
  return with(std::move(key), "every so-manieth layer has experts, the others a plain MLP", "1",
              [](ObjectReader& in, const std::string& name, FamilyDraft& d) {
                const std::int64_t n = in.integer(name, {1, kMaxLayers}, 1);
                if (n > 1) d.dense = for_layers(d, [n](std::int64_t i) { return (i + 1) % n != 0; });
              });
}

FamilyKey listed_layers(std::string key, bool routed) {
  return with(std::move(key), routed ? "layers that have experts" : "layers that have none",
              routed ? "by the step" : "none", [=](ObjectReader& in, const std::string& name, FamilyDraft& d) {
                const nlohmann::json* list = in.raw(name);
                if (list == nullptr || list->empty()) return;
                if (!list->is_array()) in.fail(name, "no list of layers", "give numbers from 0 on");
                const std::vector<bool> before = d.dense;
                d.dense = for_layers(d, [&](std::int64_t i) {
                  const bool listed = std::find(list->begin(), list->end(), nlohmann::json(i)) != list->end();
                  return routed ? !listed : listed || (!before.empty() && before[static_cast<std::size_t>(i)]);
                });
              });
}

FamilyKey scores(std::string key) {
  return with(std::move(key), "softmax or sigmoid", {}, [](ObjectReader& in, const std::string& name, FamilyDraft& d) {
    static const std::vector<std::string> kScores{"softmax", "sigmoid"};
    d.experts.routing.sigmoid =
        in.choice(name, kScores, d.experts.routing.sigmoid ? "sigmoid" : "softmax") == "sigmoid";
  });
}

FamilyKey must_be(std::string key, const nlohmann::json& value, const std::string& otherwise) {
  return with(std::move(key), fmt::format("must be {}", value.dump()), value.dump(),
              [=](ObjectReader& in, const std::string& name, FamilyDraft&) {
                const nlohmann::json* found = in.raw(name);
                if (found != nullptr && !found->is_null() && *found != value)
                  in.fail(name, fmt::format("it is {}: {}", found->dump(), otherwise),
                          fmt::format("only {} is built", value.dump()));
              });
}

FamilyKey values_only(std::string key, const std::string& what) {
  return with(std::move(key), what + "; of no cost, and not computed by any back end", "none",
              [what](ObjectReader& in, const std::string& name, FamilyDraft& d) {
                const nlohmann::json* found = in.raw(name);
                if (found != nullptr && matters(*found)) d.simulated_only.push_back(what);
              });
}

FamilyKey noted(std::string key, const std::string& what) {
  return with(std::move(key), what + ": left out, with a note", "none",
              [what](ObjectReader& in, const std::string& name, FamilyDraft& d) {
                const nlohmann::json* found = in.raw(name);
                if (found != nullptr && matters(*found))
                  d.notes.push_back(fmt::format("{} = {}: {}, left out", name, found->dump(), what));
              });
}

FamilyKey no_effect(std::string key, std::string why) {
  return with(std::move(key), std::move(why), {},
              [](ObjectReader& in, const std::string& name, FamilyDraft&) { in.expect(name); });
}

FamilyKeys common(FamilyKeys own) {
  const FamilyKeys shared{
      flag("tie_word_embeddings", {&FamilyDraft::tied}, "output projection shares the word table"),
      number("attention_dropout|attention_probs_dropout_prob|attn_pdrop", &FamilyDraft::attention_dropout, kDropout,
             "dropout of attention probabilities"),
      number("initializer_range", &FamilyDraft::init_std, {0.0, 10.0}, "standard deviation of initial weights"),
      flag("merged_projections", {&FamilyDraft::merged_projections},
           "q, k and v in one product, gate and up in another; no key of Hugging Face")};
  own.insert(own.end(), shared.begin(), shared.end());
  return own;
}

FamilyKeys llama_like(FamilyKeys own) {
  FamilyKeys out{
      needed("num_hidden_layers", &FamilyDraft::layers, {1, kMaxLayers}, "layers"),
      needed("hidden_size", &FamilyDraft::hidden, {1, kMaxWidth}, "hidden size"),
      needed("num_attention_heads", &FamilyDraft::heads, {1, kMaxWidth}, "query heads"),
      given("num_key_value_heads", &FamilyDraft::kv_heads, {1, kMaxWidth}, "key and value heads",
            "num_attention_heads"),
      given("head_dim", &FamilyDraft::head_dim, {1, kMaxWidth}, "size of a head", "hidden_size / num_attention_heads"),
      needed("intermediate_size", &FamilyDraft::ffn, {1, kMaxWidth}, "inner size of the MLP"),
      needed("vocab_size", &FamilyDraft::vocabulary, {1, kMaxVocabulary}, "rows of the word table"),
      needed("max_position_embeddings", &FamilyDraft::max_positions, {1, kMaxPositions}, "longest sequence"),
      number("rms_norm_eps|layer_norm_eps|norm_eps", &FamilyDraft::norm_eps, {0.0, 1.0}, "added to the mean square"),
      rope_base("rope_theta"),
      activation_key("hidden_activation|hidden_act")};
  const FamilyKeys more = common(std::move(own));
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

}  // namespace rehearse::family
