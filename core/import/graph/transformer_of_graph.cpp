// From what a transformer does to the configuration of a family. Layers are found by repetition; what stands before
// them are tables, what stands behind them is the head. The network that the configuration makes has the graph's
// parameters and products, or the graph is refused.

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/config/json_file.hpp"
#include "core/import/graph/transformer_events.hpp"
#include "core/model/architecture.hpp"
#include "core/model/network.hpp"

namespace rehearse {
namespace {

using EventKind = GraphEvent::Kind;
using EventList = std::vector<GraphEvent>;
using ConfigJson = nlohmann::ordered_json;

constexpr double kSameProducts = 1e-3;  // Of the FLOPs.

/// Events [first, first + length) and so many like them behind.
struct Repetition {
  std::size_t first = 0, length = 0, times = 0;
  [[nodiscard]] std::size_t end() const { return first + length * times; }
};

/// The stretch of equal parts in a row, each with one attention, that covers most events; of equals the first.
Repetition repetition_of(const EventList& events) {
  Repetition best;
  for (std::size_t length = 4; 2 * length <= events.size() && length <= 64; ++length) {
    std::size_t run = 0;  // Events in a row that come again `length` later.
    for (std::size_t i = 0; i + length < events.size(); ++i) {
      run = events[i] == events[i + length] ? run + 1 : 0;
      const std::size_t times = run / length + 1, first = i + 1 - run;
      if (times < 2 || times * length <= best.length * best.times) continue;
      const auto begin = events.begin() + static_cast<std::ptrdiff_t>(first);
      const auto attentions = std::count_if(begin, begin + static_cast<std::ptrdiff_t>(length),
                                            [](const GraphEvent& e) { return e.kind == EventKind::attention; });
      if (attentions == 1) best = {first, length, times};
    }
  }
  return best;
}

/// A decoder's or encoder's facts.
struct TransformerFacts {
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocabulary = 0, positions = 0,
               types = 0;
  std::string norm, activation, weight_of_words;
  double eps = 0;
  bool merged = false, qkv_bias = false, output_bias = false, mlp_bias = false, gated = false, parallel = false,
       after = false, embedding_norm = false, head_bias = false, tied = false, transform = false, learned = false;
};

class FactsOfGraph {
 public:
  FactsOfGraph(const FxDocument& document, std::string origin)
      : of_(transformer_events(document)), origin_(std::move(origin)) {
    if (of_.experts) refuse("tokens choose among experts (topk)");
    const EventList rest = tables();
    Repetition layers = repetition_of(rest);
    if (layers.times < 2) refuse("no layers with attention repeat in it");
    facts.after = of_.added.at(rest[layers.first].node) && of_.added.at(rest[layers.first + layers.length].node);
    if (facts.after) ++layers.first;  // Norms stand behind the additions: the first is the embedding's.
    if (layers.end() > rest.size()) refuse("its last layer is another than those before");
    facts.layers = static_cast<std::int64_t>(layers.times);
    for (std::size_t i = 0; i < layers.first; ++i) {
      if (rest[i].kind != EventKind::norm) refuse("something besides tables and a norm stands before its layers");
      facts.embedding_norm = true;
    }
    layer({rest.begin() + static_cast<std::ptrdiff_t>(layers.first),
           rest.begin() + static_cast<std::ptrdiff_t>(layers.first + layers.length)});
    head({rest.begin() + static_cast<std::ptrdiff_t>(layers.end()), rest.end()});
    facts.learned = facts.positions > 0;
  }

  TransformerFacts facts;
  [[nodiscard]] const TransformerEvents& events() const { return of_; }
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::usage, what + ": this transformer is no family's", origin_,
                "give its config.json, or sizes of a family that 'rehearse list architectures' has");
  }

 private:
  /// Takes tables out: most rows are words', then positions', then kinds of tokens.
  EventList tables() {
    EventList all, rest;
    for (const GraphEvent& e : of_.events) (e.kind == EventKind::table ? all : rest).push_back(e);
    std::stable_sort(all.begin(), all.end(),
                     [](const GraphEvent& a, const GraphEvent& b) { return a.first > b.first; });
    std::vector<std::string> seen;
    std::erase_if(all, [&](const GraphEvent& e) {
      const bool again = std::find(seen.begin(), seen.end(), e.weight) != seen.end();
      seen.push_back(e.weight);
      return again;
    });
    if (all.empty() || all.size() > 3) refuse(fmt::format("it has {} tables", all.size()));
    facts.vocabulary = all[0].first;
    facts.hidden = all[0].second;
    facts.weight_of_words = all[0].weight;
    if (all.size() > 1) facts.positions = all[1].first;
    if (all.size() > 2) facts.types = all[2].first;
    return rest;
  }

  void norm_is(const GraphEvent& e) {
    if (!facts.norm.empty() && facts.norm != e.what) refuse("layers with norms of two kinds");
    facts.norm = e.what;
    if (e.eps > 0) facts.eps = e.eps;
  }

  void layer(const EventList& events) {
    EventList before, behind;  // Products by the side of the attention on which they stand.
    int norms = 0;
    bool attended = false;
    for (const GraphEvent& e : events) {
      if (e.kind == EventKind::norm) {
        norm_is(e);
        ++norms;
      } else if (e.kind == EventKind::attention) {
        facts.heads = e.first;
        facts.head_dim = e.second;
        attended = true;
      } else if (e.kind == EventKind::activation) {
        facts.activation = e.what;
      } else {
        (attended ? behind : before).push_back(e);
      }
    }
    if (norms < 1 || norms > 2) refuse(fmt::format("a layer of {} norms", norms));
    facts.parallel = norms == 1;
    attention(before);
    if (behind.size() < 3 || behind.size() > 4) refuse(fmt::format("{} products behind the attention", behind.size()));
    facts.output_bias = behind[0].bias;
    mlp({behind.begin() + 1, behind.end()});
  }

  void attention(const EventList& products) {
    const std::int64_t d = facts.head_dim;
    if (facts.heads == 0 || d == 0 || (products.size() != 1 && products.size() != 3))
      refuse(fmt::format("{} products before the attention", products.size()));
    facts.merged = products.size() == 1;
    facts.kv_heads = facts.merged ? (products[0].second / d - facts.heads) / 2 : products[1].second / d;
    facts.qkv_bias = products[0].bias;
    if (facts.kv_heads < 1) refuse("attention without keys and values of its own");
  }

  void mlp(const EventList& products) {
    facts.gated = products.size() == 3 || products[0].second == 2 * products[1].first;
    facts.ffn = products.back().first;
    facts.mlp_bias = products.back().bias;
  }

  void head(const EventList& events) {
    EventList products;
    for (const GraphEvent& e : events)
      if (e.kind == EventKind::product) products.push_back(e);
    if (products.empty() || products.back().second != facts.vocabulary)
      refuse("what stands last is no product over the vocabulary");
    if (products.size() > 2) refuse(fmt::format("{} products behind the layers", products.size()));
    facts.head_bias = products.back().bias;
    facts.transform = products.size() == 2;
    facts.tied = products.back().weight == facts.weight_of_words;
  }

  TransformerEvents of_;
  std::string origin_;
};

ConfigJson gpt2_of(const TransformerFacts& f, const TransformerEvents& e) {
  ConfigJson c{{"model_type", "gpt2"},       {"n_layer", f.layers},
               {"n_embd", f.hidden},         {"n_head", f.heads},
               {"n_inner", f.ffn},           {"n_positions", f.positions},
               {"vocab_size", f.vocabulary}, {"activation_function", f.activation == "gelu" ? "gelu" : "gelu_new"}};
  if (f.eps > 0) c["layer_norm_epsilon"] = f.eps;
  c.update({{"embd_pdrop", e.embedding_dropout},
            {"attn_pdrop", e.attention_dropout},
            {"resid_pdrop", e.hidden_dropout},
            {"tie_word_embeddings", f.tied}});
  return c;
}

/// Sizes that BERT, Llama and their followers call alike.
ConfigJson sizes_of(const std::string& family, const TransformerFacts& f, std::int64_t positions) {
  return {{"model_type", family},
          {"num_hidden_layers", f.layers},
          {"hidden_size", f.hidden},
          {"intermediate_size", f.ffn},
          {"num_attention_heads", f.heads},
          {"vocab_size", f.vocabulary},
          {"max_position_embeddings", positions}};
}

ConfigJson bert_of(const TransformerFacts& f, const TransformerEvents& e) {
  ConfigJson c = sizes_of("bert", f, f.positions);
  c.update({{"type_vocab_size", f.types},
            {"hidden_act", f.activation == "gelu" ? "gelu" : "gelu_new"},
            {"attention_probs_dropout_prob", e.attention_dropout},
            {"hidden_dropout_prob", std::max(e.embedding_dropout, e.hidden_dropout)}});
  if (f.eps > 0) c["layer_norm_eps"] = f.eps;
  return c;
}

ConfigJson decoder_of(const TransformerFacts& f, const TransformerEvents& e) {
  const bool llama = f.norm == "rms_norm" && f.gated && f.activation == "silu" && !f.learned && e.turns &&
                     !f.parallel && !f.embedding_norm && !f.head_bias && f.qkv_bias == f.output_bias &&
                     e.hidden_dropout == 0 && e.embedding_dropout == 0;
  ConfigJson c = sizes_of(llama ? "llama" : "decoder", f, f.learned ? f.positions : e.tokens);
  c.update({{"num_key_value_heads", f.kv_heads}, {"head_dim", f.head_dim}, {"tie_word_embeddings", f.tied}});
  if (f.eps > 0) c["rms_norm_eps"] = f.eps;
  c.update({{"attention_dropout", e.attention_dropout}, {"mlp_bias", f.mlp_bias}, {"merged_projections", f.merged}});
  if (llama) {
    c["attention_bias"] = f.qkv_bias;
    return c;
  }
  c.update({{"norm", f.norm},
            {"positions", f.learned ? "learned"
                          : e.turns ? "rotary"
                                    : "none"},
            {"residual", f.parallel ? "parallel" : "sequential"},
            {"gated", f.gated},
            {"hidden_act", f.activation == "gelu_tanh" ? "gelu_new" : f.activation},
            {"qkv_bias", f.qkv_bias},
            {"attention_output_bias", f.output_bias},
            {"head_bias", f.head_bias},
            {"embedding_norm", f.embedding_norm},
            {"embedding_dropout", e.embedding_dropout},
            {"hidden_dropout", e.hidden_dropout}});
  return c;
}

ConfigJson configuration_of(const FactsOfGraph& of) {
  const TransformerFacts& f = of.facts;
  const TransformerEvents& e = of.events();
  const bool gelu = !f.gated && (f.activation == "gelu" || f.activation == "gelu_tanh");
  const bool all_biased = f.qkv_bias && f.output_bias && f.mlp_bias;
  const bool plain = f.norm == "layer_norm" && gelu && all_biased && f.kv_heads == f.heads && f.learned && !f.parallel;
  if (f.after) {
    if (!plain || !f.transform || f.types == 0 || !f.embedding_norm || !f.head_bias || !f.tied)
      of.refuse("norms stand behind the additions, and it is no BERT with its head for masked words");
    return bert_of(f, e);
  }
  if (f.transform || f.types > 0) of.refuse("a head or a table as BERT's, with norms before the branches");
  if (plain && f.merged && !f.embedding_norm && !f.head_bias && f.head_dim * f.heads == f.hidden) return gpt2_of(f, e);
  return decoder_of(f, e);
}

/// Of products and attention, for one sequence.
double flops_of_events(const TransformerEvents& e) {
  double out = 0;
  const auto tokens = static_cast<double>(e.tokens);
  for (const GraphEvent& event : e.events) {
    const double size = static_cast<double>(event.first) * static_cast<double>(event.second);
    if (event.kind == EventKind::product) out += 2 * size * tokens;
    if (event.kind == EventKind::attention) out += 4 * size * tokens * tokens;
  }
  return out;
}

std::vector<std::string> notes_of(const FactsOfGraph& of) {
  const TransformerEvents& e = of.events();
  std::vector<std::string> out;
  if (!of.facts.learned)
    out.push_back(fmt::format("the longest sequence is that of the graph, {} tokens: no table says it", e.tokens));
  if (!of.facts.learned && e.turns) out.emplace_back("the base of the rotary angles is 10000: no graph says it");
  if (of.facts.eps == 0) out.emplace_back("what is added to a norm's variance is the family's: no graph says it");
  if (!e.masked && !of.facts.after)
    out.emplace_back("attention has no mask in this graph, and the family's sees no later tokens");
  return out;
}

}  // namespace

ImportedGraph transformer_of(const FxDocument& document, const std::string& origin) {
  const FactsOfGraph of(document, origin);
  ImportedGraph out;
  out.name = document.name;
  out.nodes = static_cast<int>(document.nodes.size());
  out.blocks = 3;
  out.instances = static_cast<int>(of.facts.layers) + 2;
  out.parameters = document.parameters;
  out.notes = notes_of(of);
  out.layer_list = configuration_of(of).dump(2) + "\n";
  const Network network = build_network(parse_json(out.layer_list, origin), origin, document.name);
  if (network.parameter_count() != out.parameters)
    throw Error(
        ErrorKind::usage,
        fmt::format("the module has {} parameters, and as a {} it would have {}", out.parameters,
                    parse_json(out.layer_list, origin)["model_type"].get<std::string>(), network.parameter_count()),
        origin, "give its config.json, or trace the module without what is no layer, table or head");
  out.forward_flops = forward_flops_of(network, of.events().tokens);
  const double wanted = flops_of_events(of.events());
  if (std::abs(out.forward_flops - wanted) > kSameProducts * wanted)
    throw Error(
        ErrorKind::usage,
        fmt::format("the graph's products take {:.6g} FLOPs, and the network's {:.6g}", wanted, out.forward_flops),
        origin, "give its config.json");
  return out;
}

}  // namespace rehearse
