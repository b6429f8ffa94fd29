// A rail-optimised fabric (NVIDIA DGX SuperPOD reference architectures): NIC i of every node of a scalable unit is on
// leaf i of that unit, so that equal NIC indices meet after one switch.

#include <algorithm>

#include <fmt/format.h>

#include "core/cluster/fabrics/clos.hpp"

namespace rehearse {
namespace {

int rails_of(const FabricSite& site) {
  int rails = 1;
  for (const auto& p : site.parts) rails = std::max(rails, p.nics);
  return rails;
}

int nodes_per_unit(const FabricSite& site) { return integer_parameter(site, "nodes_per_unit", 32); }

ClosShape shape_of_rail_optimised(const FabricSite& site) {
  ClosShape shape;
  read_clos_parameters(site, shape);
  lay_out_sections(site, shape, [&](const std::vector<FabricPorts>& parts) {
    int nodes = 0;
    BytesPerSecond fastest;
    for (const auto& p : parts) {
      nodes += p.nodes;
      fastest = max(fastest, p.rate);
    }
    int units = std::max(1, (nodes - 1) / nodes_per_unit(site) + 1);
    return SectionSize{units * rails_of(site), nodes_per_unit(site) * fastest};
  });
  shape.leaves_per_pod = shape.has_core ? integer_parameter(site, "units_per_pod", 4) * rails_of(site) : shape.leaves;
  return shape;
}

class RailOptimised final : public ClosFabric {
 public:
  explicit RailOptimised(const FabricSite& site)
      : ClosFabric(site, shape_of_rail_optimised(site)),
        rails_(rails_of(site)),
        nodes_per_unit_(nodes_per_unit(site)) {}
  [[nodiscard]] bool has_rails() const override { return true; }
  [[nodiscard]] std::string summary() const override {
    return fmt::format("rail-optimised: {} rails, {} nodes per unit, {}", rails_, nodes_per_unit_, shape_text());
  }

 private:
  [[nodiscard]] int leaf_of(const Port& port) const override {
    std::size_t part = part_of_node(port.node);
    return first_leaf_of(part) + (port.node - first_node_of(part)) / nodes_per_unit_ * rails_ + port.nic;
  }
  [[nodiscard]] std::string leaf_name(int leaf) const override {
    return fmt::format("unit{}/rail{}", leaf / rails_, leaf % rails_);
  }
  int rails_;
  int nodes_per_unit_;
};

std::vector<ParameterHelp> help_rail_optimised() {
  auto all = clos_parameter_help();
  all.insert(all.begin(), {{"nodes_per_unit", "nodes of a scalable unit: ports that one leaf serves", "32"},
                           {"units_per_pod", "scalable units that share spines (3 levels)", "4"}});
  return all;
}

[[maybe_unused]] const bool registered_rail_optimised = fabric_registry().add(
    {"rail_optimised", "one leaf per NIC index and scalable unit; NVLink carries traffic to the right rail",
     help_rail_optimised(), [](const FabricSite& site) { return std::make_unique<RailOptimised>(site); }});

}  // namespace
}  // namespace rehearse
