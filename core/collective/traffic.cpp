#include "core/collective/traffic.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace rehearse::traffic {
namespace {

/// Position of `node` in a binary tree over 0..nodes-1 whose leaves are the odd numbers: its parent, -1 for the root.
int parent_of(int node, int nodes) {
  if (node == 0) return -1;
  const int bit = node & -node;
  const int up = (node ^ bit) | (bit << 1);
  return up >= nodes ? node ^ bit : up;
}

/// The second tree: the mirror of the first (even count) or the first shifted by one (odd), so that inner nodes are
/// leaves there.
int second(int node, int nodes) { return nodes % 2 == 0 ? nodes - 1 - node : (node + 1) % nodes; }

int heads(const GroupLayout& g) { return g.least_per_node; }

/// The node's devices along a cycle, from its `k`-th device on.
std::vector<DeviceId> from_entry(const GroupLayout::Node& n, const std::vector<int>& cycle, std::size_t k) {
  const auto entry = std::size_t(std::find(cycle.begin(), cycle.end(), int(k % n.devices.size())) - cycle.begin());
  std::vector<DeviceId> out;
  for (std::size_t j = 0; j < cycle.size(); ++j)
    out.push_back(n.devices[std::size_t(cycle[(entry + j) % cycle.size()])]);
  return out;
}

void both_ways(std::vector<FluidEdge>& out, DeviceId a, DeviceId b, Bytes bytes) {
  out.push_back({a, b, bytes});
  out.push_back({b, a, bytes});
}

}  // namespace

std::vector<FluidEdge> merged(std::vector<FluidEdge> edges) {
  std::sort(edges.begin(), edges.end(),
            [](const FluidEdge& a, const FluidEdge& b) { return std::pair(a.src, a.dst) < std::pair(b.src, b.dst); });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    if (kept > 0 && edges[kept - 1].src == edges[i].src && edges[kept - 1].dst == edges[i].dst)
      edges[kept - 1].bytes += edges[i].bytes;
    else
      edges[kept++] = edges[i];
  }
  edges.resize(kept);
  return edges;
}

bool routed_by_nodes(const Cluster& cluster) { return cluster.network().kind == "torus"; }

Seconds node_time(const Cluster& cluster, const std::vector<FluidEdge>& edges) {
  long in_nodes = 0;
  for (const auto& part : cluster.parts()) in_nodes += 2L * long(part.machine->links.size()) * part.nodes;
  const bool every = routed_by_nodes(cluster);
  std::map<LinkId, Bytes> load;
  std::map<std::tuple<NodeId, int, bool>, Bytes> ports;  // node, NIC, outgoing
  for (const auto& e : edges) {
    for (const LinkId l : cluster.route(e.src, e.dst).links)
      if (every || l < in_nodes) load[l] += e.bytes;
    const NodeId from = cluster.node_of(e.src), to = cluster.node_of(e.dst);
    if (from == to) continue;
    ports[{from, cluster.nic_of(e.src), true}] += e.bytes;
    ports[{to, cluster.nic_of(e.dst), false}] += e.bytes;
  }
  Seconds out;
  for (const auto& [port, bytes] : ports) out = max(out, bytes / cluster.machine(std::get<0>(port)).nic.rate);
  for (const auto& [link, bytes] : load) out = max(out, bytes / cluster.link_rate(link));
  return out;
}

std::vector<FluidEdge> rings(const GroupLayout& g, const NodeRings& orders, Bytes per_edge, DeviceId root,
                             bool into_root) {
  std::vector<std::vector<std::vector<int>>> inside;
  for (const auto& n : g.nodes) inside.push_back(orders(n));
  const std::size_t count = g.nodes.size() > 1 ? std::size_t(heads(g)) : inside.front().size();
  std::vector<FluidEdge> out;
  std::vector<DeviceId> ring;
  for (std::size_t k = 0; k < count; ++k) {
    ring.clear();
    for (std::size_t i = 0; i < g.nodes.size(); ++i) {
      const auto part = from_entry(g.nodes[i], inside[i][k % inside[i].size()], k);
      ring.insert(ring.end(), part.begin(), part.end());
    }
    for (std::size_t i = 0; i < ring.size(); ++i) {
      const FluidEdge e{ring[i], ring[(i + 1) % ring.size()], per_edge / double(count)};
      if (root < 0 || (into_root ? e.dst : e.src) != root) out.push_back(e);
    }
  }
  return merged(std::move(out));
}

std::vector<FluidEdge> double_tree(const GroupLayout& g, Bytes bytes) {
  const int nodes = int(g.nodes.size()), rails = heads(g);
  std::vector<FluidEdge> out;
  for (int k = 0; k < rails; ++k) {
    const auto head = [&](int node) {
      const auto& d = g.nodes[std::size_t(node)].devices;
      return d[std::size_t(k) % d.size()];
    };
    const Bytes share = bytes / double(rails);
    for (int node = 0; node < nodes; ++node) {
      const int up = parent_of(node, nodes);
      if (up < 0) continue;
      both_ways(out, head(node), head(up), share / 2);
      both_ways(out, head(second(node, nodes)), head(second(up, nodes)), share / 2);
    }
  }
  return merged(std::move(out));
}

std::vector<FluidEdge> chains(const GroupLayout& g, const NodeRings& orders, Bytes bytes) {
  std::vector<FluidEdge> out;
  const auto rails = std::size_t(heads(g));
  for (const auto& n : g.nodes) {
    const auto cycles = orders(n);
    for (std::size_t k = 0; k < rails; ++k) {
      const auto chain = from_entry(n, cycles[k % cycles.size()], k);
      for (std::size_t j = 0; j + 1 < chain.size(); ++j) both_ways(out, chain[j], chain[j + 1], bytes / double(rails));
    }
  }
  return merged(std::move(out));
}

std::vector<FluidEdge> nvls(const GroupLayout& g, Bytes bytes) {
  std::vector<FluidEdge> out;
  for (const auto& n : g.nodes)
    for (std::size_t i = 0; n.devices.size() > 1 && i < n.devices.size(); ++i)
      out.push_back({n.devices[i], n.devices[(i + 1) % n.devices.size()], bytes});
  return out;
}

std::vector<FluidEdge> reduced_in_network(const GroupLayout& g, Bytes bytes) {
  std::vector<FluidEdge> out;
  const auto rails = std::size_t(heads(g));
  for (std::size_t k = 0; k < rails; ++k)
    for (std::size_t i = 0; i < g.nodes.size(); ++i) {
      const auto& here = g.nodes[i].devices;
      const auto& there = g.nodes[(i + 1) % g.nodes.size()].devices;
      out.push_back({here[k % here.size()], there[k % there.size()], bytes / double(rails)});
    }
  return merged(std::move(out));
}

}  // namespace rehearse::traffic
