#include "core/cluster/machine_search.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/graph/filtered_graph.hpp>

namespace rehearse {
namespace {

using MachineSearchKind = MachineSpec::VertexKind;

struct DirectedLink {
  int id = 0;
  PathCost cost;
};
using MachineGraph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, DirectedLink>;
using Edge = boost::graph_traits<MachineGraph>::edge_descriptor;

struct Usable {
  const MachineSpec* machine = nullptr;
  const MachineGraph* graph = nullptr;
  int root = 0;
  Medium medium = Medium::host;

  bool operator()(const Edge& e) const {
    MachineSearchKind from = machine->vertices[source(e, *graph)].kind;
    MachineSearchKind to = machine->vertices[target(e, *graph)].kind;
    bool at_root = static_cast<int>(source(e, *graph)) == root;
    bool is_nvlink = machine->links[(*graph)[e].id / 2].kind == MachineSpec::LinkKind::nvlink;
    bool touches_host = from == MachineSearchKind::cpu || to == MachineSearchKind::cpu;
    if (medium == Medium::nvlink) return is_nvlink && !touches_host && (at_root || from == MachineSearchKind::nvswitch);
    return (!is_nvlink || touches_host) &&
           (at_root || from == MachineSearchKind::cpu || from == MachineSearchKind::pcie_switch);
  }
};

MachineGraph graph_of(const MachineSpec& machine) {
  MachineGraph graph(machine.vertices.size());
  for (int i = 0; i < static_cast<int>(machine.links.size()); ++i) {
    const auto& link = machine.links[i];
    auto cost_into = [&](int vertex) {
      return PathCost{link.kind == MachineSpec::LinkKind::socket,
                      machine.vertices[vertex].kind == MachineSearchKind::cpu, 1, link.rate.value()};
    };
    add_edge(link.a, link.b, DirectedLink{2 * i, cost_into(link.b)}, graph);
    add_edge(link.b, link.a, DirectedLink{2 * i + 1, cost_into(link.a)}, graph);
  }
  return graph;
}

struct Extend {
  PathCost operator()(const PathCost& path, const PathCost& link) const {
    return {path.sockets + link.sockets, path.hosts + link.hosts, path.hops + link.hops,
            std::min(path.width, link.width)};
  }
};

}  // namespace

bool PathCost::operator<(const PathCost& o) const {
  return std::tie(sockets, hosts, hops, o.width) < std::tie(o.sockets, o.hosts, o.hops, width);
}

std::vector<std::optional<FoundPath>> search_paths(const MachineSpec& machine, int from, Medium medium) {
  MachineGraph graph = graph_of(machine);
  boost::filtered_graph<MachineGraph, Usable> view(graph, Usable{&machine, &graph, from, medium});

  constexpr int kFar = std::numeric_limits<int>::max();
  const PathCost nowhere{kFar, kFar, kFar, 0};
  const PathCost here{0, 0, 0, std::numeric_limits<double>::infinity()};
  std::vector<PathCost> cost(machine.vertices.size());
  std::vector<Edge> arrived_by(machine.vertices.size());
  boost::dijkstra_shortest_paths(
      view, static_cast<std::size_t>(from),
      boost::weight_map(get(&DirectedLink::cost, graph))
          .distance_map(boost::make_iterator_property_map(cost.begin(), get(boost::vertex_index, graph)))
          .distance_compare(std::less<PathCost>())
          .distance_combine(Extend{})
          .distance_inf(nowhere)
          .distance_zero(here)
          .visitor(boost::make_dijkstra_visitor(
              boost::record_edge_predecessors(arrived_by.data(), boost::on_edge_relaxed()))));

  std::vector<std::optional<FoundPath>> found(machine.vertices.size());
  for (int v = 0; v < static_cast<int>(found.size()); ++v) {
    if (cost[v].hops == kFar) continue;
    FoundPath path{cost[v], {}};
    for (int at = v; at != from; at = static_cast<int>(source(arrived_by[at], graph)))
      path.links.push_back(graph[arrived_by[at]].id);
    std::reverse(path.links.begin(), path.links.end());
    found[v] = std::move(path);
  }
  return found;
}

}  // namespace rehearse
