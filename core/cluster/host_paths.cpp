#include "core/cluster/host_paths.hpp"

#include <algorithm>

#include "core/base/index.hpp"
#include "core/cluster/machine_search.hpp"

namespace rehearse {

namespace {

/// From GPU vertex `gpu` to the nearest CPU; empty where there is none.
std::vector<int> to_host(const MachineSpec& machine, int gpu) {
  const auto found = search_paths(machine, gpu, Medium::host);
  const FoundPath* best = nullptr;
  for (std::size_t v = 0; v < found.size(); ++v)
    if (machine.vertices[v].kind == MachineSpec::VertexKind::cpu && found[v] &&
        (best == nullptr || found[v]->cost < best->cost))
      best = &*found[v];
  return best == nullptr ? std::vector<int>{} : best->links;
}

}  // namespace

HostPaths::HostPaths(const Cluster& cluster) : cluster_(cluster) {
  NodeId node = 0;
  LinkId link = 0;
  for (const Cluster::Part& part : cluster.parts()) {
    const MachineSpec& machine = *part.machine;
    const int links_per_node = 2 * static_cast<int>(machine.links.size());
    Part out{node, link, links_per_node, {}, std::vector<int>(static_cast<std::size_t>(links_per_node), 0)};
    for (int v = 0; v < static_cast<int>(machine.vertices.size()); ++v) {
      if (nth(machine.vertices, v).kind != MachineSpec::VertexKind::gpu) continue;
      out.links.push_back(to_host(machine, v));
      for (const int l : out.links.back()) ++nth(out.users, l);
    }
    parts_.push_back(std::move(out));
    node += part.nodes;
    link += part.nodes * links_per_node;
  }
}

BytesPerSecond HostPaths::share(DeviceId d) const {
  const NodeId node = cluster_.node_of(d);
  const Part& part = *std::prev(
      std::upper_bound(parts_.begin(), parts_.end(), node, [](NodeId n, const Part& p) { return n < p.first_node; }));
  const LinkId first = part.first_link + (node - part.first_node) * part.links_per_node;
  BytesPerSecond least{};
  for (const int link : nth(part.links, cluster_.local_index(d))) {
    const BytesPerSecond share = cluster_.link_rate(first + link) * (1.0 / nth(part.users, link));
    least = least > BytesPerSecond{0} ? min(least, share) : share;
  }
  return least;
}

}  // namespace rehearse
