// A fat tree (C. Leiserson, IEEE Trans. Computers C-34, 1985; folded Clos): all NICs of a node, or a fixed number of
// ports in node order, share a leaf.

#include <algorithm>

#include <fmt/format.h>

#include "core/cluster/fabrics/clos.hpp"

namespace rehearse {
namespace {

struct LeafSize {
  int nodes = 0;  ///< 0 where the leaf is stated in ports.
  int ports = 0;
};

LeafSize leaf_size(const FabricSite& site) {
  bool by_nodes = site.parameters.contains("nodes_per_leaf");
  if (by_nodes == site.parameters.contains("ports_per_leaf"))
    throw Error(ErrorKind::usage, "a fat_tree network needs exactly one of 'nodes_per_leaf' and 'ports_per_leaf'",
                "network.parameters");
  if (by_nodes) return {integer_parameter(site, "nodes_per_leaf", 1), 0};
  return {0, integer_parameter(site, "ports_per_leaf", 1)};
}

SectionSize section_of(const std::vector<FabricPorts>& parts, const LeafSize& size) {
  int nodes = 0, ports = 0;
  BytesPerSecond fastest_port, fastest_node;
  for (const auto& p : parts) {
    nodes += p.nodes;
    ports += p.nodes * p.nics;
    fastest_port = max(fastest_port, p.rate);
    fastest_node = max(fastest_node, p.nics * p.rate);
  }
  int members = size.nodes ? nodes : ports;
  int per_leaf = size.nodes ? size.nodes : size.ports;
  return {std::max(1, (members - 1) / per_leaf + 1),
          size.nodes ? size.nodes * fastest_node : size.ports * fastest_port};
}

ClosShape shape_of_fat_tree(const FabricSite& site) {
  LeafSize size = leaf_size(site);
  ClosShape shape;
  read_clos_parameters(site, shape);
  lay_out_sections(site, shape, [&](const std::vector<FabricPorts>& parts) { return section_of(parts, size); });
  shape.leaves_per_pod = shape.has_core ? integer_parameter(site, "leaves_per_pod", 16) : shape.leaves;
  return shape;
}

class FatTree final : public ClosFabric {
 public:
  explicit FatTree(const FabricSite& site) : ClosFabric(site, shape_of_fat_tree(site)), size_(leaf_size(site)) {}
  [[nodiscard]] std::string summary() const override {
    return fmt::format("fat tree: {} {} per leaf, {}", size_.nodes ? size_.nodes : size_.ports,
                       size_.nodes ? "nodes" : "ports", shape_text());
  }

 private:
  [[nodiscard]] int leaf_of(const Port& port) const override {
    std::size_t part = part_of_node(port.node);
    NodeId first = first_node_of(part);
    int within = size_.nodes ? (port.node - first) / size_.nodes : (port.index - port_index(first, 0)) / size_.ports;
    return first_leaf_of(part) + within;
  }
  LeafSize size_;
};

std::vector<ParameterHelp> help_fat_tree() {
  auto all = clos_parameter_help();
  all.insert(all.begin(), {{"nodes_per_leaf", "nodes whose NICs are all on one leaf (or state ports_per_leaf)", ""},
                           {"ports_per_leaf", "NIC ports on one leaf, filled in node order", ""},
                           {"leaves_per_pod", "leaves that share spines (3 levels)", "16"}});
  return all;
}

[[maybe_unused]] const bool registered_fat_tree =
    fabric_registry().add({"fat_tree", "leaves and spines, with or without a core; evenly spread", help_fat_tree(),
                           [](const FabricSite& site) { return std::make_unique<FatTree>(site); }});

}  // namespace
}  // namespace rehearse
