// The whole cluster written out as a Boost.Graph graph, and as a sentence.

#include <fmt/format.h>

#include "core/cluster/cluster_graph.hpp"
#include "core/cluster/cluster_impl.hpp"

namespace rehearse {

std::string_view name_of(MachineSpec::LinkKind kind) {
  switch (kind) {
    case MachineSpec::LinkKind::nvlink: return "nvlink";
    case MachineSpec::LinkKind::pcie: return "pcie";
    case MachineSpec::LinkKind::socket: return "socket";
    case MachineSpec::LinkKind::c2c: return "c2c";
  }
  return "";
}

std::string_view name_of(MachineSpec::VertexKind kind) {
  switch (kind) {
    case MachineSpec::VertexKind::gpu: return "gpu";
    case MachineSpec::VertexKind::nvswitch: return "nvswitch";
    case MachineSpec::VertexKind::pcie_switch: return "pcie_switch";
    case MachineSpec::VertexKind::cpu: return "cpu";
    case MachineSpec::VertexKind::nic: return "nic";
  }
  return "";
}

namespace {

/// Where each node's vertices start, and its NICs among them.
struct VertexMap {
  std::vector<std::size_t> first_of_node;
  std::vector<std::vector<std::size_t>> nics_of_part;  ///< Vertex of NIC i within the machine.
  std::size_t first_switch = 0;
};

std::vector<std::size_t> nic_vertices(const MachineSpec& machine) {
  std::vector<std::size_t> nics;
  for (std::size_t v = 0; v < machine.vertices.size(); ++v)
    if (machine.vertices[v].kind == MachineSpec::VertexKind::nic) nics.push_back(v);
  return nics;
}

void add_machine_links(ClusterGraph& graph, const MachineSpec& machine, std::size_t first_vertex, LinkId first_link) {
  for (std::size_t i = 0; i < machine.links.size(); ++i) {
    const auto& link = machine.links[i];
    auto there = first_link + static_cast<LinkId>(2 * i);
    add_edge(first_vertex + link.a, first_vertex + link.b, ClusterEdge{there, link.kind, link.rate}, graph);
    add_edge(first_vertex + link.b, first_vertex + link.a, ClusterEdge{there + 1, link.kind, link.rate}, graph);
  }
}

}  // namespace

std::string_view kind_name(const ClusterEdge& edge) { return edge.kind ? name_of(*edge.kind) : "network"; }

ClusterGraph Cluster::graph() const {
  ClusterGraph graph;
  VertexMap map;
  std::vector<std::size_t> part_of_node;
  for (std::size_t part = 0; part < impl_->blocks.size(); ++part) {
    const auto& block = impl_->blocks[part];
    map.nics_of_part.push_back(nic_vertices(*block.machine));
    for (int i = 0; i < impl_->parts[part].nodes; ++i) {
      NodeId node = block.first_node + i;
      map.first_of_node.push_back(num_vertices(graph));
      part_of_node.push_back(part);
      for (const auto& v : block.machine->vertices)
        add_vertex(ClusterVertex{fmt::format("node{}/{}", node, v.name), v.kind, node, v.name}, graph);
      add_machine_links(graph, *block.machine, map.first_of_node.back(), impl_->first_link(block, node));
    }
  }
  map.first_switch = num_vertices(graph);
  for (int s = 0; s < impl_->fabric->switch_count(); ++s)
    add_vertex(ClusterVertex{impl_->fabric->switch_name(s), std::nullopt}, graph);

  auto vertex_of = [&](const FabricEnd& end) {
    if (end.fabric_switch >= 0) return map.first_switch + end.fabric_switch;
    return map.first_of_node[end.node] + map.nics_of_part[part_of_node[end.node]][end.nic];
  };
  for (int i = 0; i < impl_->fabric->link_count(); ++i) {
    auto [from, to] = impl_->fabric->ends(i);
    add_edge(vertex_of(from), vertex_of(to), ClusterEdge{impl_->fabric_first + i, std::nullopt, impl_->fabric->rate(i)},
             graph);
  }
  return graph;
}

std::string Cluster::summary() const {
  std::string machines;
  for (const auto& part : impl_->parts)
    machines += fmt::format("{}{} x {} ({} x {})", machines.empty() ? "" : " + ", part.nodes, part.machine->name,
                            part.machine->gpus, part.gpu->name);
  return fmt::format("{} GPUs: {}; {}", impl_->devices, machines, impl_->fabric->summary());
}

}  // namespace rehearse
