#include "core/collective/collective.hpp"

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "core/collective/nccl_search.hpp"
#include "core/collective/prepared_group.hpp"
#include "core/collective/traffic.hpp"
#include "core/units/error.hpp"

namespace rehearse {
namespace {

CollectiveChoice nothing() { return {"none", "Simple", 0, Seconds{}, BytesPerSecond{}, Seconds{}}; }

void check(Bytes bytes) {
  if (!(bytes.value() >= 0) || std::isinf(bytes.value()))
    throw Error(ErrorKind::usage, "a collective of " + std::to_string(bytes.value()) + " bytes", "collective size", "sizes are finite and not negative");
}

/// Latency first, the rest as bandwidth, so that time = latency + bytes / bandwidth.
CollectiveChoice timed(CollectiveChoice c, Bytes bytes, Seconds time) {
  c.time = time;
  if (bytes.value() > 0 && time > c.latency) c.bandwidth = bytes / (time - c.latency);
  return c;
}

std::vector<FluidEdge> joined(std::vector<FluidEdge> a, const std::vector<FluidEdge>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

int power_of_two_above(int n) {
  int p = 1;
  while (p < n) p *= 2;
  return p;
}

/// Time the wires need at least, given the algorithm's name, where it takes a look at every link to tell.
using WireTime = std::function<Seconds(std::string_view algorithm)>;

CollectiveChoice tuned(const PreparedGroup& g, CollectiveOp op, Bytes bytes, bool measured, const WireTime& wire_time) {
  const auto pick = g.table.pick(op, bytes);
  CollectiveChoice out{std::string(name_of(pick.algorithm)), std::string(name_of(pick.protocol)), pick.channels, pick.latency, {}, {}};
  const double gain = measured ? bandwidth_gain(*g.measured, pick.algorithm, g.shape.ranks, g.shape.nodes) : 1.0;
  BytesPerSecond reached = min(pick.bandwidth * gain, wire_bound(g, op, pick.algorithm));
  if (!g.switched) reached = min(reached, bytes / wire_time(out.algorithm));
  out.bandwidth = reached;
  if (!measured) return timed(out, bytes, pick.latency + bytes / reached);
  const Seconds streaming = bytes / reached;
  out.latency = measured_time(*g.measured, pick.protocol, pick.latency, Seconds{}, g.shape.ranks, g.shape.nodes);
  const Seconds time = measured_time(*g.measured, pick.protocol, pick.latency, streaming, g.shape.ranks, g.shape.nodes);
  // Where the floor hides some of the streaming, the wires still need streaming time.
  out.latency = min(out.latency, time - streaming);
  return timed(out, bytes, time);
}

/// Streaming of an all-to-all: each rank's bytes to its own node over NVLink and to others over its share of the NICs, at once.
Seconds spread(const PreparedGroup& g, Bytes bytes) {
  const double n = g.shape.ranks, here = g.per_node;
  Seconds out;
  if (here > 1) {
    const auto& ring = g.shape.search.ring;
    const auto inside = g.shape.nodes > 1 ? g.wires.total_inside : min(g.wires.total_inside, ring.intra * double(ring.channels));
    out = bytes * ((here - 1) / n) / inside;
  }
  if (g.shape.nodes > 1) out = max(out, bytes * here * ((n - here) / n) / (g.wires.total_across * kAllToAllNicShare));
  return out;
}

/// Streaming of one message from each rank to the next: at most one leaves each node.
Seconds shift(const PreparedGroup& g, Bytes bytes) {
  if (g.shape.nodes > 1) return bytes / min(g.wires.edge_across * kSendNicShare, g.per_node > 1 ? g.wires.edge_inside : g.wires.edge_across);
  const auto& ring = g.shape.search.ring;
  return bytes / min(g.wires.edge_inside, ring.intra * double(ring.channels));
}

/// Grouped sends and receives.
CollectiveChoice exchange(const PreparedGroup& g, CollectiveOp op, Bytes bytes, const WireTime& wire_time) {
  constexpr double kMessagesAtOnce = 64;
  const bool messages = op == CollectiveOp::send_recv || op == CollectiveOp::halo_exchange;
  const Seconds once = g.shape.nodes > 1 ? kSendAcross : g.through_host ? kSendThroughHost : kSendInside;
  CollectiveChoice out{"P2P", "Simple", power_of_two_above(nccl::final_channels(g.shape)), {}, {}, {}};
  out.latency = once * (messages ? 1.0 : std::ceil((g.shape.ranks - 1) / kMessagesAtOnce));
  Seconds streaming = messages ? shift(g, bytes) : spread(g, bytes);
  if (!g.switched) streaming = max(streaming, wire_time(out.algorithm));
  return timed(out, bytes, out.latency + streaming);
}

}  // namespace

struct CollectiveModel::Impl {
  const Cluster& cluster;
  Options options;
  nccl::Filter filter;
  struct Call { CollectiveOp op; double bytes; const PreparedGroup* group; bool operator==(const Call&) const = default; };
  struct Hash {
    std::size_t operator()(const Call& c) const {
      const auto mix = [](std::size_t a, std::size_t b) { return a ^ (b + 0x9e3779b97f4a7c15ULL + (a << 6) + (a >> 2)); };
      return mix(mix(std::hash<double>{}(c.bytes), std::hash<const void*>{}(c.group)), std::size_t(c.op));
    }
  };
  mutable std::mutex mutex;
  mutable std::map<LayoutKey, PreparedGroup> groups;
  mutable std::unordered_map<Call, CollectiveChoice, Hash> choices;

  Impl(const Cluster& c, Options o) : cluster(c), options(std::move(o)), filter(nccl::Filter::parse(options.algorithm, options.protocol)) {}

  const PreparedGroup& group_of(std::span<const DeviceId> group) const {
    auto key = key_of(cluster, group);
    auto at = groups.find(key);
    if (at == groups.end()) at = groups.emplace(std::move(key), prepare(cluster, layout_of(cluster, group), filter)).first;
    return at->second;
  }

  CollectiveChoice choose(CollectiveOp op, Bytes bytes, std::span<const DeviceId> group) const {
    check(bytes);
    const std::scoped_lock lock(mutex);
    if (group.size() == 1 || bytes.value() == 0) return nothing();
    const PreparedGroup& g = group_of(group);
    const Call call{op, bytes.value(), &g};
    if (const auto at = choices.find(call); at != choices.end()) return at->second;
    const bool direct = op == CollectiveOp::all_to_all || op == CollectiveOp::send_recv || op == CollectiveOp::halo_exchange;
    const WireTime wire_time = [&](std::string_view algorithm) { return traffic::node_time(cluster, edges(op, bytes, group, algorithm)); };
    auto choice = direct ? exchange(g, op, bytes, wire_time) : tuned(g, op, bytes, options.measured_latency, wire_time);
    return choices.emplace(call, std::move(choice)).first->second;
  }

  [[nodiscard]] std::vector<FluidEdge> edges(CollectiveOp op, Bytes bytes, std::span<const DeviceId> group,
                                             std::string_view algorithm) const {
    const GroupLayout layout = layout_of(cluster, group);
    const auto orders = [&](const GroupLayout::Node& n) {
      std::vector<int> local;
      for (const DeviceId d : n.devices) local.push_back(cluster.local_index(d));
      return nccl::node_rings(cluster.machine(n.node), local);
    };
    if (op == CollectiveOp::all_to_all) return traffic::all_to_all(layout, bytes);
    if (op == CollectiveOp::halo_exchange) {
      std::vector<FluidEdge> out;
      for (std::size_t i = 0; i + 1 < group.size(); ++i) {
        out.push_back({group[i], group[i + 1], bytes});
        out.push_back({group[i + 1], group[i], bytes});
      }
      return out;
    }
    if (op == CollectiveOp::send_recv) {
      std::vector<FluidEdge> out;
      const std::size_t count = group.size() == 2 ? 1 : group.size();
      for (std::size_t i = 0; i < count; ++i) out.push_back({group[i], group[(i + 1) % group.size()], bytes});
      return out;
    }
    if (algorithm == "Tree") return joined(traffic::double_tree(layout, bytes), traffic::chains(layout, orders, bytes));
    if (algorithm == "NVLS" && op == CollectiveOp::all_reduce) return traffic::nvls(layout, bytes);
    if (algorithm == "NVLSTree") return joined(traffic::double_tree(layout, bytes), traffic::nvls(layout, bytes));
    const bool rooted = op == CollectiveOp::broadcast || op == CollectiveOp::reduce;
    return traffic::rings(layout, orders, bytes * bus_factor(op, layout.ranks), rooted ? group.front() : -1, op == CollectiveOp::broadcast);
  }
};

CollectiveModel::CollectiveModel(const Cluster& cluster) : CollectiveModel(cluster, Options{}) {}
CollectiveModel::CollectiveModel(const Cluster& cluster, Options options) : impl_(std::make_unique<Impl>(cluster, std::move(options))) {}
CollectiveModel::~CollectiveModel() = default;
CollectiveModel::CollectiveModel(CollectiveModel&&) noexcept = default;

CollectiveChoice CollectiveModel::choose(CollectiveOp op, Bytes bytes, std::span<const DeviceId> group) const {
  return impl_->choose(op, bytes, group);
}

FluidPlan CollectiveModel::plan(CollectiveOp op, Bytes bytes, std::span<const DeviceId> group) const {
  const CollectiveChoice choice = choose(op, bytes, group);
  FluidPlan out{{}, {}, choice.latency};
  if (choice.algorithm == "none") return out;
  out.edges = impl_->edges(op, bytes, group, choice.algorithm);
  Bytes busiest;
  for (const auto& e : out.edges) busiest = max(busiest, e.bytes);
  if (choice.time > choice.latency) out.rate_cap = busiest / (choice.time - choice.latency);
  return out;
}

CollectiveChoice CollectiveModel::send(Bytes bytes, DeviceId src, DeviceId dst) const {
  if (src == dst) return nothing();
  const DeviceId pair[]{src, dst};
  return choose(CollectiveOp::send_recv, bytes, pair);
}

}  // namespace rehearse
