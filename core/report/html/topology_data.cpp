#include "core/report/html/topology_data.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <queue>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/cluster/cluster_graph.hpp"

namespace rehearse {

namespace {

using nlohmann::ordered_json;

constexpr int kMostSwitches = 12;  ///< Of one level; more stand as one.

/// Rows of the picture from the bottom. Switches of the fabric are from kFabric on, by their distance from the NICs.
enum Level { kNvswitch, kGpu, kPcie, kCpu, kNic, kFabric };

int level_of_kind(MachineSpec::VertexKind kind) {
  switch (kind) {
    case MachineSpec::VertexKind::nvswitch: return kNvswitch;
    case MachineSpec::VertexKind::gpu: return kGpu;
    case MachineSpec::VertexKind::pcie_switch: return kPcie;
    case MachineSpec::VertexKind::cpu: return kCpu;
    case MachineSpec::VertexKind::nic: break;
  }
  return kNic;
}

std::string level_name(int level) {
  static const std::array<std::string, 7> kNames{"NVSwitch", "GPU",         "PCIe switch", "CPU",
                                                 "NIC",      "leaf switch", "spine switch"};
  const auto at = static_cast<std::size_t>(level);
  return at < kNames.size() ? kNames[at] : fmt::format("switch of level {}", level - kFabric + 1);
}

struct ClassSum {
  std::string kind;
  int links = 0;
  double rate = 0, used = 0, most = 0, bytes = 0;
};

class Drawing {
 public:
  Drawing(const Cluster& cluster, const LinkUse& use) : cluster_(cluster), use_(use), graph_(cluster.graph()) {
    find_levels();
    choose_node();
    place();
  }

  std::string json() const {
    ordered_json out{{"of", of_text()}, {"seconds", nullptr}};
    if (known()) out["seconds"] = use_.step.value();
    out["rows"] = rows_json();
    out["links"] = links_json();
    out["classes"] = classes_json();
    return out.dump();
  }

 private:
  using Vertex = ClusterGraph::vertex_descriptor;
  using Edge = ClusterGraph::edge_descriptor;

  [[nodiscard]] bool known() const { return !use_.bytes.empty() && use_.time > Seconds{0}; }
  [[nodiscard]] double bytes(const Edge& e) const { return known() ? nth(use_.bytes, graph_[e].link) : 0; }
  [[nodiscard]] double used(const Edge& e) const {
    return known() ? bytes(e) / (graph_[e].rate.value() * use_.time.value()) : 0;
  }

  void find_levels() {
    level_.assign(num_vertices(graph_), -1);
    std::queue<Vertex> next;
    for (Vertex v = 0; v < num_vertices(graph_); ++v)
      if (graph_[v].kind) level_[v] = level_of_kind(*graph_[v].kind);
    for (Vertex v = 0; v < num_vertices(graph_); ++v)
      if (level_[v] == kNic) next.push(v);
    for (; !next.empty(); next.pop())
      for (const Edge e : boost::make_iterator_range(out_edges(next.front(), graph_)))
        if (int& there = level_[target(e, graph_)]; there < 0)
          there = level_[next.front()] + 1, next.push(target(e, graph_));
    for (int& level : level_) level = level < 0 ? kFabric : level;
  }

  void choose_node() {
    std::vector<double> load(static_cast<std::size_t>(cluster_.node_count()), 0.0);
    node_of_vertex_.resize(num_vertices(graph_));
    for (Vertex v = 0; v < num_vertices(graph_); ++v) node_of_vertex_[v] = graph_[v].node;
    for (const Edge e : boost::make_iterator_range(edges(graph_)))
      for (const Vertex v : {source(e, graph_), target(e, graph_)})
        if (node_of_vertex_[v] >= 0) nth(load, node_of_vertex_[v]) = std::max(nth(load, node_of_vertex_[v]), used(e));
    shown_ = static_cast<NodeId>(std::max_element(load.begin(), load.end()) - load.begin());
  }

  /// The node's own vertices, and the switches that its NICs reach going up.
  void place() {
    std::map<int, std::vector<Vertex>> by_level;
    for (Vertex v = 0; v < num_vertices(graph_); ++v)
      if (node_of_vertex_[v] == shown_) by_level[level_[v]].push_back(v);
    for (int level = kNic; by_level.contains(level); ++level) {
      for (const Vertex v : by_level[level])
        for (const Edge e : boost::make_iterator_range(out_edges(v, graph_)))
          if (const Vertex up = target(e, graph_); level_[up] == level + 1 && !graph_[up].kind) {
            auto& row = by_level[level + 1];
            if (std::find(row.begin(), row.end(), up) == row.end()) row.push_back(up);
          }
    }
    for (auto at = by_level.rbegin(); at != by_level.rend(); ++at) {
      if (at->second.empty()) continue;
      row_of_level_[at->first] = static_cast<int>(rows_.size());
      rows_.push_back(at->second);
      row_levels_.push_back(at->first);
    }
    for (std::size_t r = 0; r < rows_.size(); ++r)
      for (std::size_t i = 0; i < rows_[r].size(); ++i)
        place_[rows_[r][i]] = {static_cast<int>(r), collapsed(r) ? 0 : static_cast<int>(i)};
  }

  [[nodiscard]] bool collapsed(std::size_t row) const {
    return row_levels_[row] >= kFabric && rows_[row].size() > kMostSwitches;
  }

  [[nodiscard]] std::string own_name(Vertex v) const {
    return node_of_vertex_[v] < 0 ? graph_[v].name : graph_[v].in_node;
  }

  [[nodiscard]] std::string of_text() const {
    const std::string machine = cluster_.machine(shown_).name;
    if (cluster_.node_count() == 1) return machine;
    return fmt::format("node {} of {}, {}{}", shown_, cluster_.node_count(), machine,
                       !rows_.empty() && row_levels_.front() >= kFabric ? ", and the switches above it" : "");
  }

  [[nodiscard]] ordered_json rows_json() const {
    auto out = ordered_json::array();
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      ordered_json names = ordered_json::array();
      if (collapsed(r))
        names.push_back(fmt::format("{} switches", rows_[r].size()));
      else
        for (const Vertex v : rows_[r]) names.push_back(own_name(v));
      out.push_back({{"kind", level_name(row_levels_[r])}, {"vertices", std::move(names)}});
    }
    return out;
  }

  /// Both directions of a wire as one line, the fuller one counts; wires between the same places are one line.
  [[nodiscard]] ordered_json links_json() const {
    struct Line {
      std::string name;
      double rate = 0, used = 0, bytes = 0;
    };
    std::map<std::pair<std::pair<int, int>, std::pair<int, int>>, Line> lines;
    for (const auto& [v, from] : place_) {
      for (const Edge e : boost::make_iterator_range(out_edges(v, graph_))) {
        const auto to = place_.find(target(e, graph_));
        if (to == place_.end() || to->second == from) continue;
        Line& line = lines[std::minmax(from, to->second)];
        if (line.name.empty() || used(e) > line.used)
          line = {own_name(v) + " to " + own_name(target(e, graph_)), graph_[e].rate.value(), used(e), bytes(e)};
      }
    }
    auto out = ordered_json::array();
    for (const auto& [ends, line] : lines) {
      out.push_back({{"name", line.name},
                     {"a", {ends.first.first, ends.first.second}},
                     {"b", {ends.second.first, ends.second.second}},
                     {"rate_bytes_per_s", line.rate},
                     {"used", line.used},
                     {"bytes", line.bytes}});
    }
    return out;
  }

  [[nodiscard]] ordered_json classes_json() const {
    std::map<std::tuple<int, int, std::string, double>, ClassSum> classes;
    for (const Edge e : boost::make_iterator_range(edges(graph_))) {
      const auto [low, high] = std::minmax(level_[source(e, graph_)], level_[target(e, graph_)]);
      ClassSum& c = classes[{low, high, std::string(kind_name(graph_[e])), graph_[e].rate.value()}];
      c.kind = kind_name(graph_[e]);
      c.links += 1;
      c.rate = graph_[e].rate.value();
      c.used += used(e);
      c.most = std::max(c.most, used(e));
      c.bytes += bytes(e);
    }
    auto out = ordered_json::array();
    for (const auto& [key, c] : classes) {
      const auto [low, high, kind, rate] = key;
      ordered_json entry{{"between", fmt::format("{} – {}", level_name(low), level_name(high))}, {"kind", kind}};
      if (row_of_level_.contains(low) && row_of_level_.contains(high))
        entry["rows"] = {row_of_level_.at(high), row_of_level_.at(low)};
      entry.update(ordered_json{{"links", c.links},
                                {"rate_bytes_per_s", c.rate},
                                {"mean_used", c.used / c.links},
                                {"most_used", c.most},
                                {"bytes", c.bytes}});
      out.push_back(std::move(entry));
    }
    return out;
  }

  const Cluster& cluster_;
  const LinkUse& use_;
  ClusterGraph graph_;
  std::vector<int> level_;
  std::vector<NodeId> node_of_vertex_;
  NodeId shown_ = 0;
  std::vector<std::vector<Vertex>> rows_;  ///< From the top.
  std::vector<int> row_levels_;
  std::map<int, int> row_of_level_;
  std::map<Vertex, std::pair<int, int>> place_;
};

}  // namespace

std::string topology_json(const Cluster& cluster, const LinkUse& use) { return Drawing(cluster, use).json(); }

}  // namespace rehearse
