// From the keys of a family's file to the dimensions of its stack.

#include <algorithm>
#include <cmath>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/model/architecture.hpp"
#include "core/model/families/decoder.hpp"
#include "core/model/families/family_keys.hpp"

namespace rehearse {
namespace {

/// Of the names "a|b" that which the file has, else the first.
std::string name_here(const ObjectReader& in, std::string_view names) {
  const std::string first(names.substr(0, names.find('|')));
  for (std::string_view rest = names; !rest.empty();) {
    const std::size_t end = std::min(rest.find('|'), rest.size());
    if (const std::string name(rest.substr(0, end)); in.has(name)) return name;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return first;
}

void expect_all(ObjectReader& in, std::string_view names) {
  for (std::string_view rest = names; !rest.empty();) {
    const std::size_t end = std::min(rest.find('|'), rest.size());
    in.expect(std::string(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

void read_key(const FamilyKey& key, ObjectReader& in, FamilyDraft& d) {
  const std::string name = name_here(in, key.key);
  expect_all(in, key.key);
  key.read(in, name, d);
}

/// Keys "group.key" of one object. What else stands there is noted, as build_network() does at the top.
void read_group(const std::string& group, const FamilyKeys& keys, ObjectReader& in, FamilyDraft& d) {
  static const nlohmann::json kNone = nlohmann::json::object();
  std::optional<ObjectReader> inside = in.optional_object(group);
  ObjectReader empty(kNone, in.origin(), in.path() + "/" + group);
  ObjectReader& from = inside ? *inside : empty;
  from.take_null_as_absent();
  for (const FamilyKey& key : keys)
    if (key.key.starts_with(group + ".")) {
      FamilyKey inner = key;
      inner.key.erase(0, group.size() + 1);
      read_key(inner, from, d);
    }
  for (const std::string& note : notes_on_unread(from)) d.notes.push_back(note);
}

void read_keys(const FamilyKeys& keys, ObjectReader& in, FamilyDraft& d) {
  std::vector<std::string> groups;
  for (const FamilyKey& key : keys) {
    const std::size_t dot = key.key.find('.');
    if (dot == std::string::npos) {
      read_key(key, in, d);
    } else if (const std::string group = key.key.substr(0, dot);
               std::find(groups.begin(), groups.end(), group) == groups.end()) {
      groups.push_back(group);
      read_group(group, keys, in, d);
    }
  }
}

void derive_heads(FamilyDraft& d, const ObjectReader& in) {
  if (d.kv_heads == 0) d.kv_heads = d.heads;
  if (d.head_dim == 0) d.head_dim = per_head(in, "hidden size", d.hidden, "heads", d.heads);
  if (d.rotary_dim == 0 && d.rotary_share > 0)
    d.rotary_dim = static_cast<std::int64_t>(d.rotary_share * static_cast<double>(d.head_dim)) / 2 * 2;
  if (d.latent.kv_rank > 0) {
    d.head_dim = d.latent.nope + d.latent.rope;
    d.kv_heads = d.heads;
    d.rotary_dim = d.latent.rope;
  }
}

/// Kinds of layers, where these are not alike.
void derive_kinds(FamilyDraft& d) {
  const bool experts = d.experts.routing.experts > 0;
  if (d.window >= d.max_positions) d.window = 0;
  const auto at = [](const std::vector<bool>& list, std::size_t i) { return !list.empty() && list[i]; };
  for (std::size_t i = 0; i < static_cast<std::size_t>(d.layers); ++i)
    d.kinds.push_back({d.window > 0 && (d.windowed.empty() || d.windowed[i]), !at(d.unturned, i) || d.rotary_dim == 0,
                       experts && !at(d.dense, i)});
  if (!experts || std::none_of(d.kinds.begin(), d.kinds.end(), [](const LayerVariant& k) { return k.routed; }))
    d.experts = {};
}

void derive_mlp(FamilyDraft& d, const ObjectReader& in) {
  if (d.ffn == 0) d.ffn = std::min(d.ffn_factor * d.hidden, kMaxWidth);
  if (d.experts.routing.experts > 0 && d.experts.ffn == 0) d.experts.ffn = d.ffn;
  d.experts.squared_relu = !d.gated && d.activation == Activation::squared_relu;
  d.tanh_gelu = d.activation == Activation::gelu_tanh;
  if (d.gated && d.activation != Activation::silu) d.simulated_only.emplace_back("a gate that is no SiLU");
  if (!d.gated && d.activation == Activation::silu)
    throw Error(ErrorKind::usage, "an MLP of SiLU without a gate", in.where(),
                "gelu, relu and relu2 are built without a gate, silu with one");
  if (d.qk_norm_all) d.simulated_only.emplace_back("norms of queries and keys over all heads");
}

TransformerConfig read_family(const FamilyDraft& start, const FamilyKeys& keys, ObjectReader& in) {
  FamilyDraft d = start;
  d.model_type = in.string("model_type");
  d.has_words = d.plain;
  read_keys(keys, in, d);
  d.residual_init_std = d.init_std;
  derive_heads(d, in);
  derive_mlp(d, in);
  derive_kinds(d);
  check(d, in);
  return static_cast<const TransformerConfig&>(d);
}

}  // namespace

FamilyDraft llama_start() {
  FamilyDraft d;
  d.norm = OpKind::rms_norm;
  d.norm_eps = 1e-6;
  d.activation = Activation::silu;
  d.gated = true;
  d.rotary_share = 1;
  return d;
}

FamilyDraft gpt_start() {
  FamilyDraft d;
  d.norm = OpKind::layer_norm;
  d.qkv_bias = d.attention_output_bias = d.mlp_bias = true;
  return d;
}

FamilyDraft changed(FamilyDraft start, const std::function<void(FamilyDraft&)>& change) {
  change(start);
  return start;
}

bool enter_family(std::string_view model_type, std::string_view summary, FamilyDraft start, FamilyKeys keys) {
  std::vector<ParameterHelp> help;
  for (const FamilyKey& key : keys) help.push_back({key.key, key.meaning, key.fallback});
  const auto rows = std::make_shared<const FamilyKeys>(std::move(keys));
  const auto read = [start = std::move(start), rows](ObjectReader& in) { return read_family(start, *rows, in); };
  return architectures().add({std::string(model_type),
                              std::string(summary),
                              std::move(help),
                              {.build = [read](ObjectReader& in) { return stack_network(read(in)); }, .read = read}});
}

bool refuse_family(std::string_view model_type, std::string_view what) {
  return refused_architectures().emplace(model_type, what).second;
}

}  // namespace rehearse
