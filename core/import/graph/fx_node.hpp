#pragma once
// Nodes of a graph as rehearse_graph.py writes them.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/import/graph/graph.hpp"

namespace rehearse {

/// A call of a function or of a module of PyTorch's.
struct FxNode {
  GraphNode out;                                  ///< Without `kind` and `keys`, which rules give it.
  std::string module;                             ///< Path of the module, or of the parameter; empty: none.
  nlohmann::json attributes, options, constants;  ///< Of a module; of a call, by name and by place.
  std::map<std::string, std::vector<std::int64_t>> parameters;
  std::vector<std::int64_t> from;  ///< Shape of its first input; empty: none.

  /// An option by its name or, of a function, its place among what is no tensor; null: it isn't there.
  [[nodiscard]] const nlohmann::json* find(const std::string& key, std::size_t place = SIZE_MAX) const;
  /// Sizes of a parameter; throws Error (usage) without it.
  [[nodiscard]] const std::vector<std::int64_t>& parameter(const std::string& name) const;
};

struct FxDocument {
  std::string name;
  std::int64_t parameters = 0;  ///< Of the module, each counted once.
  std::vector<FxNode> nodes;
};

/// Throws Error (usage) with file and place.
[[nodiscard]] FxDocument read_fx_document(const nlohmann::json& document, const std::string& origin);

/// Whether it reads tokens: one of its nodes looks up rows of a table.
[[nodiscard]] bool reads_tokens(const FxDocument& document);
/// A network over images or vectors, as nodes whose operators are layer kinds.
[[nodiscard]] Graph graph_of(FxDocument document, const std::string& origin);
/// A transformer, as a configuration of a family: `layer_list` is its config.json. Throws Error (usage) that says what
/// its layers have that no family here has, or where parameters or products would differ.
[[nodiscard]] ImportedGraph transformer_of(const FxDocument& document, const std::string& origin);

}  // namespace rehearse
