#pragma once
// Networks that other programs state as graphs of operators: torch.fx (topologies/graph/rehearse_graph.py writes it as
// JSON) and ONNX. Both become nodes whose operators are the layer kinds of a layer list (core/model/images), and those
// a list of blocks that strategies can divide.
//
//   const ImportedGraph g = import_graph(read_text("resnet50.json"), "resnet50.json");
//   write_file("model.json", g.layer_list);

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace rehearse {

inline constexpr std::string_view kGraphSchema = "rehearse/graph/v1";

/// One operator of a graph.
struct GraphNode {
  std::string name;
  std::string op;                   ///< As the file calls it.
  std::string kind;                 ///< Layer kind; "input", "output", "same" (hands on its input), or empty: unknown.
  std::vector<std::string> inputs;  ///< Nodes whose tensors it reads.
  nlohmann::ordered_json keys = nlohmann::ordered_json::object();  ///< Of the layer.
  std::vector<std::int64_t> shape;                                 ///< Of its result, with the batch.
  std::int64_t parameters = 0;
};

struct Network;

/// Of products, convolutions and attention, for one sample of so many tokens.
[[nodiscard]] double forward_flops_of(const Network& network, std::int64_t tokens);

/// Elements of a tensor of this shape; 2^60 where it would be more.
[[nodiscard]] std::int64_t elements_of(const std::vector<std::int64_t>& shape);

struct Graph {
  std::string name;
  std::vector<GraphNode> nodes;  ///< In an order in which each stands behind its inputs.
};

/// Of a serialised ONNX model, whose operators are of opset 7 or later. Throws Error (usage) with file and node.
[[nodiscard]] Graph read_onnx_graph(std::string_view bytes, const std::string& origin);

/// What became of a graph.
struct ImportedGraph {
  std::string name;
  std::string layer_list;                    ///< Text of schema rehearse/network/v1, or of a family's config.json.
  int nodes = 0, blocks = 0, instances = 0;  ///< `instances` counts repeated blocks as often as they stand.
  std::int64_t parameters = 0;               ///< That the file states, and that the list has: they are equal.
  double forward_flops = 0;                  ///< Of products and convolutions, for one sample.
  /// Operators that are known to nobody here and were left out, with how often they stand. They keep the shape of what
  /// they read.
  std::map<std::string, int> unknown;
  std::vector<std::string> notes;  ///< What no graph says and was taken for granted.
};

/// Throws Error (usage) that names operator and node for what has no counterpart and cannot be left out, and where the
/// list would have other parameters or shapes than the graph.
[[nodiscard]] ImportedGraph import_graph(const std::string& text, const std::string& origin);
/// The same of nodes.
[[nodiscard]] ImportedGraph layers_of(Graph graph, const std::string& origin);

}  // namespace rehearse
