#include "core/collective/prepared_group.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "core/collective/nccl/nccl_search.hpp"

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
  for (const auto& [link, count] : load)
    w.total_inside = min(w.total_inside, c.link_rate(link) * (double(rings.size()) / count));
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
  return std::any_of(m.vertices.begin(), m.vertices.end(),
                     [](const auto& v) { return v.kind == MachineSpec::VertexKind::nvswitch; });
}

nccl::CommunicatorShape shape_of(const Cluster& c, const GroupLayout& layout, nccl::NodeSearches* known) {
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
  const auto found = known != nullptr ? nccl::search(c, all, *known) : nccl::search(c, all);
  s.search = static_cast<const nccl::SearchResult&>(found);
  s.nodes = found.nodes;
  return s;
}

/// NVLinks between the two of these GPUs that have fewest in common.
int least_links(const Cluster& c, const GroupLayout::Node& n) {
  const MachineSpec& m = c.machine(n.node);
  const GpuSpec& gpu = c.gpu(n.devices.front());
  if (has_nvswitch(m)) return gpu.nvlink ? gpu.nvlink->links : 1;
  std::map<std::pair<int, int>, int> links;
  const auto is_gpu = [&](int v) { return m.vertices[std::size_t(v)].kind == MachineSpec::VertexKind::gpu; };
  for (const auto& l : m.links)
    if (l.kind == MachineSpec::LinkKind::nvlink && is_gpu(l.a) && is_gpu(l.b))
      links[std::minmax(m.vertices[std::size_t(l.a)].index, m.vertices[std::size_t(l.b)].index)] += l.count;
  int least = std::numeric_limits<int>::max();
  const auto local = local_indices(c, n);
  for (std::size_t i = 0; i < local.size(); ++i)
    for (std::size_t j = i + 1; j < local.size(); ++j) {
      const auto at = links.find(std::minmax(local[i], local[j]));
      least = std::min(least, at == links.end() ? 1 : at->second);
    }
  return least == std::numeric_limits<int>::max() ? 1 : least;
}

/// Constants of the group's oldest generation.
const CollectiveConstants* constants_of(const Cluster& c, const GroupLayout& layout) {
  const GpuSpec* oldest = nullptr;
  for (const auto& n : layout.nodes) {
    const GpuSpec& gpu = c.gpu(n.devices.front());
    if (oldest == nullptr || gpu.compute_capability < oldest->compute_capability) oldest = &gpu;
  }
  return oldest->collectives.get();
}

/// NCCL chooses by the rate that stands for no path; what such channels reach is what slower ones would.
nccl::SearchResult with_reached_rates(nccl::SearchResult found, const WireLimits& wires, int nodes) {
  for (nccl::GraphResult* g : {&found.ring, &found.tree}) {
    if (g->intra != nccl::kNoPath || g->channels == 0) continue;
    const auto within = [&](BytesPerSecond wire) {
      return (g->carries.value() > 0 ? min(g->carries, wire) : wire) / double(g->channels);
    };
    g->intra = within(wires.total_inside);
    if (nodes > 1 && g->inter == nccl::kNoPath) g->inter = within(wires.total_across);
  }
  return found;
}

}  // namespace

void add_collnet(nccl::SearchResult& search, bool sharp, int nodes) {
  if (!sharp || nodes < 2) return;
  search.collnet_chain = search.tree;
  search.collnet_chain.channels = search.ring.channels;
  search.collnet_direct = search.ring;
  search.collnet_direct.intra = search.collnet_direct.inter;
}

PreparedGroup prepare(const Cluster& cluster, const GroupLayout& layout, const nccl::Filter& filter, int min_channels,
                      nccl::NodeSearches* known) {
  auto shape = shape_of(cluster, layout, known);
  const bool inside = shape.search.ring.intra_path <= nccl::PathClass::nvlink_relay;
  const NetworkCollectives& network = cluster.network().collectives;
  add_collnet(shape.search, network.sharp, shape.nodes);
  shape.min_channels = min_channels;
  bool switched = true;
  for (const auto& n : layout.nodes)
    switched = switched && (n.devices.size() == 1 || has_nvswitch(cluster.machine(n.node)));
  shape.nvswitch = switched && layout.least_per_node > 1;
  const nccl::TuningTable table(shape, filter);
  const WireLimits wires = limits_of(cluster, layout);
  shape.search = with_reached_rates(shape.search, wires, shape.nodes);
  auto widened = shape;
  widened.cap_channels = min_channels / 2;
  return {shape,
          table,
          nccl::TuningTable(widened, filter),
          wires,
          measured_costs(constants_of(cluster, layout), network),
          layout.least_per_node,
          switched,
          !inside,
          least_links(cluster, layout.nodes.front())};
}

BytesPerSecond wire_bound(const PreparedGroup& g, CollectiveOp op, nccl::Algorithm a) {
  using nccl::Algorithm;
  const double ring = bus_factor(op, g.shape.ranks);
  const double stay = double(g.per_node - 1) / g.per_node;
  const bool tree = a == Algorithm::tree || a == Algorithm::nvls_tree;
  const bool reduced =
      a == Algorithm::collnet_direct || a == Algorithm::collnet_chain || (a == Algorithm::nvls && g.shape.nodes > 1);
  // Out of the busiest node: a ring's share; a double tree's two halves, each one up and two down but never both inner.
  // Switches that reduce take each byte once and give it back once.
  const double out = reduced              ? (op == CollectiveOp::all_reduce ? 1.0 : ring)
                     : !tree              ? ring
                     : g.shape.nodes == 2 ? 1.0
                                          : 2.0;
  double inside = tree || a == Algorithm::nvls ? 1.0 : ring;
  if (a == Algorithm::tree || a == Algorithm::collnet_chain) inside = 2 * stay;
  if (!tree && !reduced && g.shape.nodes > 1) inside = ring * stay;
  BytesPerSecond bound = kUnlimited;
  if (g.shape.nodes > 1) bound = g.wires.total_across / out;
  if (g.per_node > 1) bound = min(bound, g.wires.total_inside / inside);
  return bound;
}

}  // namespace rehearse
