#include "core/collective/prepared_group.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "core/collective/nccl_search.hpp"

namespace rehearse {
namespace {

constexpr BytesPerSecond kUnlimited{std::numeric_limits<double>::infinity()};

BytesPerSecond bottleneck(const Cluster& c, DeviceId a, DeviceId b) {
  BytesPerSecond out = kUnlimited;
  for (const LinkId l : c.route(a, b).links) out = min(out, c.link_rate(l));
  return out;
}

std::vector<int> local_indices(const Cluster& c, const GroupLayout::Node& n) {
  std::vector<int> out;
  for (const DeviceId d : n.devices) out.push_back(c.local_index(d));
  return out;
}

/// All rings at once, each as fast as the others: the link with the most of them decides.
void read_inside(const Cluster& c, const GroupLayout::Node& n, WireLimits& w) {
  if (n.devices.size() < 2) return;
  const auto rings = nccl::node_rings(c.machine(n.node), c.gpu(n.devices.front()), local_indices(c, n));
  std::map<LinkId, int> load;
  for (const auto& ring : rings)
    for (std::size_t i = 0; i < ring.size(); ++i) {
      const DeviceId a = n.devices[std::size_t(ring[i])], b = n.devices[std::size_t(ring[(i + 1) % ring.size()])];
      w.edge_inside = min(w.edge_inside, bottleneck(c, a, b));
      for (const LinkId l : c.route(a, b).links) ++load[l];
    }
  for (const auto& [link, count] : load) w.total_inside = min(w.total_inside, c.link_rate(link) * (double(rings.size()) / count));
}

void read_across(const Cluster& c, const GroupLayout& layout, const GroupLayout::Node& n, WireLimits& w) {
  if (layout.nodes.size() < 2) return;
  const auto& other = layout.nodes.front().node == n.node ? layout.nodes.back() : layout.nodes.front();
  std::set<int> nics;
  for (const DeviceId d : n.devices) nics.insert(c.nic_of(d));
  const BytesPerSecond edge = bottleneck(c, n.devices.front(), other.devices.front());
  w.edge_across = min(w.edge_across, edge);
  w.total_across = min(w.total_across, edge * double(nics.size()));
}

WireLimits limits_of(const Cluster& c, const GroupLayout& layout) {
  WireLimits w{kUnlimited, kUnlimited, kUnlimited, kUnlimited};
  std::set<LayoutKey::Kind> seen;
  for (const auto& n : layout.nodes) {
    if (!seen.insert(key_of(c, n.devices).kinds.front()).second) continue;
    read_inside(c, n, w);
    read_across(c, layout, n, w);
  }
  return w;
}

bool has_nvswitch(const MachineSpec& m) {
  return std::any_of(m.vertices.begin(), m.vertices.end(), [](const auto& v) { return v.kind == MachineSpec::VertexKind::nvswitch; });
}

nccl::CommunicatorShape shape_of(const Cluster& c, const GroupLayout& layout) {
  nccl::CommunicatorShape s;
  s.ranks = layout.ranks;
  s.nodes = int(layout.nodes.size());
  s.cpu = nccl::cpu_vendor_of(c.machine(layout.nodes.front().node));
  s.min_compute_capability = std::numeric_limits<int>::max();
  std::vector<DeviceId> all;
  for (const auto& n : layout.nodes) {
    const int cc = c.gpu(n.devices.front()).compute_capability;
    s.min_compute_capability = std::min(s.min_compute_capability, cc);
    s.max_compute_capability = std::max(s.max_compute_capability, cc);
    if (nccl::cpu_vendor_of(c.machine(n.node)) != s.cpu) s.cpu = nccl::CpuVendor::mixed;
    all.insert(all.end(), n.devices.begin(), n.devices.end());
  }
  const auto found = nccl::search(c, all);
  s.search = found;
  s.nodes = found.nodes;
  return s;
}

}  // namespace

PreparedGroup prepare(const Cluster& cluster, const GroupLayout& layout, const nccl::Filter& filter) {
  const auto shape = shape_of(cluster, layout);
  const bool inside = shape.search.ring.intra_path <= nccl::PathClass::nvlink_relay;
  bool switched = true;
  for (const auto& n : layout.nodes) switched = switched && (n.devices.size() == 1 || has_nvswitch(cluster.machine(n.node)));
  return {shape, nccl::TuningTable(shape, filter), limits_of(cluster, layout),
          &measured_collectives_of(shape.min_compute_capability), layout.least_per_node, switched, !inside};
}

BytesPerSecond wire_bound(const PreparedGroup& g, CollectiveOp op, nccl::Algorithm a) {
  using nccl::Algorithm;
  const double ring = bus_factor(op, g.shape.ranks);
  const double stay = double(g.per_node - 1) / g.per_node;
  const bool tree = a == Algorithm::tree || a == Algorithm::nvls_tree;
  // Out of the busiest node: a ring's share; a double tree's two halves, each one up and two down but never both inner.
  const double out = !tree ? ring : g.shape.nodes == 2 ? 1.0 : 2.0;
  double inside = tree || a == Algorithm::nvls ? 1.0 : ring;
  if (a == Algorithm::tree) inside = 2 * stay;
  if (!tree && g.shape.nodes > 1) inside = ring * stay;
  BytesPerSecond bound = kUnlimited;
  if (g.shape.nodes > 1) bound = g.wires.total_across / out;
  if (g.per_node > 1) bound = min(bound, g.wires.total_inside / inside);
  return bound;
}

}  // namespace rehearse
