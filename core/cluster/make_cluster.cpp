#include "core/cluster/make_cluster.hpp"

#include <fmt/format.h>

namespace rehearse {

Cluster make_cluster(const Catalogue& catalogue, const ClusterSpec& spec) {
  std::vector<Cluster::Part> parts;
  std::string machines;
  for (const auto& part : spec.parts) {
    auto machine = catalogue.machine(part.machine);
    parts.push_back({machine, catalogue.gpu(machine->gpu), part.nodes});
    machines += fmt::format("{}{} x {}", machines.empty() ? "" : " + ", part.nodes, part.machine);
  }
  return {spec.name.empty() ? machines : spec.name, std::move(parts), *catalogue.network(spec.network)};
}

Cluster make_cluster(const Catalogue& catalogue, const std::string& id) {
  return make_cluster(catalogue, *catalogue.cluster(id));
}

}  // namespace rehearse
