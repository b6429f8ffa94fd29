#pragma once
// What a transformer does, in the order in which it does it: the calls of a graph without those that only move numbers.

#include <cstdint>
#include <string>
#include <vector>

#include "core/import/graph/fx_node.hpp"

namespace rehearse {

/// One step of a transformer.
struct GraphEvent {
  enum class Kind : std::uint8_t { table, product, norm, attention, activation } kind = Kind::product;
  /// Of a table its rows and columns, of a product the features it reads and makes, of attention heads and their size.
  std::int64_t first = 0, second = 0;
  bool bias = false;     ///< Of a product.
  std::string what;      ///< "layer_norm" or "rms_norm"; "gelu", "gelu_tanh", "relu", "silu" or "tanh".
  double eps = 0;        ///< Of a norm; 0: the graph does not say.
  std::size_t node = 0;  ///< That it is.
  std::string weight;    ///< Path of a product's or table's parameter, where one node holds it.
  [[nodiscard]] bool operator==(const GraphEvent& o) const {
    return kind == o.kind && first == o.first && second == o.second && bias == o.bias && what == o.what;
  }
};

struct TransformerEvents {
  std::vector<GraphEvent> events;
  std::int64_t batch = 0, tokens = 0;  ///< Of the input.
  bool masked = false;                 ///< Attention has a mask.
  bool turns = false;                  ///< Something is turned by sines and cosines, or by a table of them.
  bool experts = false;                ///< Tokens choose among experts.
  std::vector<bool> added;             ///< By node: something adds its result, or a view of it, to something else.
  double embedding_dropout = 0, attention_dropout = 0, hidden_dropout = 0;  ///< Probabilities.
};

[[nodiscard]] TransformerEvents transformer_events(const FxDocument& document);

}  // namespace rehearse
