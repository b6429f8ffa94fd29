#include "core/cluster/drawing.hpp"

#include <map>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/cluster/cluster_graph.hpp"

namespace rehearse {
namespace {

std::string_view shape_of(std::optional<MachineSpec::VertexKind> kind) {
  using Kind = MachineSpec::VertexKind;
  if (kind == Kind::gpu) return "box, style=filled, fillcolor=\"#cfe8cf\"";
  if (kind == Kind::nic) return "box, style=filled, fillcolor=\"#f6dfb8\"";
  if (kind == Kind::cpu) return "box, style=filled, fillcolor=\"#d5dff2\"";
  return "ellipse";
}

/// What a vertex is drawn within; empty for a switch of the fabric.
std::string node_of(const ClusterVertex& v) { return v.node < 0 ? std::string() : fmt::format("node{}", v.node); }

struct Line {
  BytesPerSecond rate;
  int count = 0;
  std::optional<MachineSpec::LinkKind> kind;
};
/// Lines by the names of their ends.
using Lines = std::map<std::pair<std::string, std::string>, Line>;

std::string text_of(const Lines& lines) {
  std::string out;
  for (const auto& [ends, line] : lines) {
    std::string rate = to_string(line.rate);
    if (line.count > 1) rate = fmt::format("{} x {}", line.count, rate);
    out += fmt::format("  \"{}\" -- \"{}\" [label=\"{}\"{}];\n", ends.first, ends.second, rate,
                       line.kind == MachineSpec::LinkKind::nvlink ? ", color=\"#2e7d32\"" : "");
  }
  return out;
}

}  // namespace

std::string dot_text(const Cluster& cluster, int most_vertices) {
  const ClusterGraph graph = cluster.graph();
  std::map<std::string, int> vertices_of_node;
  int outside = 0;
  for (auto [v, end] = vertices(graph); v != end; ++v) {
    const std::string node = node_of(graph[*v]);
    node.empty() ? ++outside : ++vertices_of_node[node];
  }
  const bool whole = static_cast<long long>(num_vertices(graph)) <= most_vertices;
  if (!whole && outside + static_cast<long long>(vertices_of_node.size()) > most_vertices)
    throw Error(ErrorKind::usage,
                fmt::format("{} nodes and {} switches are more than a drawing can show ({})", vertices_of_node.size(),
                            outside, most_vertices),
                "topology", "draw one machine, or a smaller cluster on the same network");
  const auto drawn = [whole](const ClusterVertex& v) {
    const std::string node = node_of(v);
    return whole || node.empty() ? v.name : node;
  };

  std::string out = fmt::format("graph \"{}\" {{\n  layout=dot;\n  node [fontname=\"sans-serif\"];\n", cluster.name());
  std::string open;
  for (auto [v, end] = vertices(graph); v != end; ++v) {
    const std::string node = node_of(graph[*v]);
    if (whole && node != open) {
      if (!open.empty()) out += "  }\n";
      if (!node.empty()) out += fmt::format("  subgraph \"cluster_{0}\" {{\n  label=\"{0}\";\n", node);
      open = node;
    }
    if (!whole && !node.empty() && vertices_of_node.erase(node) == 0) continue;
    const std::string name = drawn(graph[*v]);
    const std::string label = whole && !node.empty() ? graph[*v].in_node : name;
    out += fmt::format("  \"{}\" [label=\"{}\", shape={}];\n", name, label,
                       whole || node.empty() ? shape_of(graph[*v].kind) : "box3d");
  }
  if (!open.empty()) out += "  }\n";

  Lines lines;
  for (auto [e, end] = edges(graph); e != end; ++e) {
    const auto from = source(*e, graph), to = target(*e, graph);
    std::string a = drawn(graph[from]), b = drawn(graph[to]);
    if (from > to || a == b) continue;  // The other direction is the same line.
    Line& line = lines[{std::move(a), std::move(b)}];
    line.rate = graph[*e].rate;
    line.kind = graph[*e].kind;
    ++line.count;
  }
  return out + text_of(lines) + "}\n";
}

}  // namespace rehearse
