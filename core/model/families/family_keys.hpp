#pragma once
// Families of decoders as lines of data: what a class takes for granted, and what each key of its config.json sets.
//
//   enter_family("gemma", "Gemma: ...", {.norm = OpKind::rms_norm, .tied = true},
//                llama_like({activation_key("hidden_activation"), flag("attention_bias", &FamilyDraft::qkv_bias,
//                "...")}));
//
// A key is written "a|b" where the class knows it by two names, and "group.key" where it stands in an object.

#include <concepts>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/model/hf_config.hpp"

namespace rehearse {

/// A configuration as far as it is read.
struct FamilyDraft : TransformerConfig {
  double rotary_share = 0;      ///< Of a head's elements, those that turn; 0: none, unless `rotary_dim` says.
  std::int64_t ffn_factor = 4;  ///< `ffn` over `hidden`, where no key gives it.
  bool plain = false;           ///< Its layers are Llama's: exports have words for them.
  std::vector<bool> windowed, unturned, dense;  ///< By layer; empty: none is.
};

/// One key of a family's files.
struct FamilyKey {
  std::string key, meaning, fallback;
  /// Takes it from the object that holds it, by the name that stands there.
  std::function<void(ObjectReader& in, const std::string& name, FamilyDraft& draft)> read;
};
using FamilyKeys = std::vector<FamilyKey>;

namespace family {

template <class Target, class Number>
concept PointsTo = requires(Target t, FamilyDraft& d) {
  { std::invoke(t, d) } -> std::same_as<Number&>;
};

[[nodiscard]] std::string shown(std::int64_t value);
[[nodiscard]] std::string shown(double value);

/// A size that must be there; where the class has a default, `start` holds it.
template <PointsTo<std::int64_t> Target>
FamilyKey needed(std::string key, Target target, IntegerRange range, std::string meaning) {
  return {std::move(key), std::move(meaning), "required",
          [=](ObjectReader& in, const std::string& name, FamilyDraft& d) {
            std::int64_t& value = std::invoke(target, d);
            value = value > 0 ? in.integer(name, range, value) : in.integer(name, range);
          }};
}
/// A whole number that may be left out.
template <PointsTo<std::int64_t> Target>
FamilyKey given(std::string key, Target target, IntegerRange range, std::string meaning, std::string fallback = {}) {
  return {std::move(key), std::move(meaning), std::move(fallback),
          [=](ObjectReader& in, const std::string& name, FamilyDraft& d) {
            std::int64_t& value = std::invoke(target, d);
            value = in.has(name) ? in.integer(name, range) : value;
            in.expect(name);
          }};
}
template <PointsTo<double> Target>
FamilyKey number(std::string key, Target target, NumberRange range, std::string meaning) {
  return {std::move(key), std::move(meaning), {}, [=](ObjectReader& in, const std::string& name, FamilyDraft& d) {
            double& value = std::invoke(target, d);
            value = in.number(name, range, value);
          }};
}
/// A switch for each of `targets`; without the key they stay as the class has them.
FamilyKey flag(std::string key, std::vector<bool TransformerConfig::*> targets, std::string meaning);

/// The MLP's activation, or its gate's.
FamilyKey activation_key(std::string key);
/// Fraction of each head that rotary embedding turns.
FamilyKey rotary_share(std::string key);
/// The base of the angles: `key`, or rope_theta in rope_parameters; how angles are scaled for long contexts is no cost.
FamilyKey rope_base(std::string key);
/// Tokens that windowed layers attend to: all layers, unless another key says which. Without a value there is none.
FamilyKey window(std::string key);
/// "sliding_attention", "chunked_attention" or "full_attention" for each layer. Any other kind is refused.
FamilyKey layer_types(std::string key = "layer_types");
/// Every n-th layer attends to all tokens, the others to the window, where layer_types says nothing.
FamilyKey window_pattern(std::string key, std::int64_t fallback);
/// A list with a 1 for each layer that has the rotary embedding; left out, every `interval`-th layer has none.
FamilyKey unturned_layers(std::string key, std::int64_t interval);
/// The first so many layers have no experts.
FamilyKey first_dense(std::string key);
/// Layers i with (i + 1) mod n = 0 have experts, the others none.
FamilyKey routed_every(std::string key);
/// Layers of this list have no experts, or, `routed`, these alone have.
FamilyKey listed_layers(std::string key, bool routed);
/// "softmax" or "sigmoid".
FamilyKey scores(std::string key);
/// Must have this value, which is what is built.
FamilyKey must_be(std::string key, const nlohmann::json& value, const std::string& otherwise);
/// Changes values and no parameters, FLOPs or memory: simulated as if it were not there, and no back end computes it.
/// null, false, 0, 1 and what is empty change nothing.
FamilyKey values_only(std::string key, const std::string& what);
/// Changes parameters or operations, and is left out: a note says so.
FamilyKey noted(std::string key, const std::string& what);
/// Changes no step.
FamilyKey no_effect(std::string key, std::string why);
/// Reads whatever else.
FamilyKey with(std::string key, std::string meaning, std::string fallback,
               std::function<void(ObjectReader&, const std::string&, FamilyDraft&)> read);

// Targets inside ExpertLayers.
inline std::int64_t& experts(FamilyDraft& d) { return d.experts.routing.experts; }
inline std::int64_t& top_k(FamilyDraft& d) { return d.experts.routing.top_k; }
inline std::int64_t& expert_ffn(FamilyDraft& d) { return d.experts.ffn; }
inline std::int64_t& shared_ffn(FamilyDraft& d) { return d.experts.shared_ffn; }
inline std::int64_t& groups(FamilyDraft& d) { return d.experts.routing.groups; }
inline std::int64_t& group_limit(FamilyDraft& d) { return d.experts.routing.limit; }
inline double& aux_loss(FamilyDraft& d) { return d.experts.routing.aux_loss; }
inline double& routed_scale(FamilyDraft& d) { return d.experts.routing.scale; }

/// Keys that Llama and its followers share, after `own`, which go first.
[[nodiscard]] FamilyKeys llama_like(FamilyKeys own);
/// The same without the keys of sizes, for classes that name these otherwise.
[[nodiscard]] FamilyKeys common(FamilyKeys own);

}  // namespace family

/// What Llama's class takes for granted: RMSNorm, a gate of SiLU, rotary embedding on whole heads.
[[nodiscard]] FamilyDraft llama_start();
/// What GPT-2's descendants do: LayerNorm, an MLP without a gate, biases everywhere.
[[nodiscard]] FamilyDraft gpt_start();
/// A start, changed.
[[nodiscard]] FamilyDraft changed(FamilyDraft start, const std::function<void(FamilyDraft&)>& change);

/// Enters an architecture whose layers are stack_network()'s. `start` is what the class takes for granted.
bool enter_family(std::string_view model_type, std::string_view summary, FamilyDraft start, FamilyKeys keys);
/// Enters a model type that is refused because its layers need `what`, an operation that no operator here is.
bool refuse_family(std::string_view model_type, std::string_view what);

}  // namespace rehearse
