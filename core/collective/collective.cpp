#include "core/collective/collective.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include <fmt/format.h>
#include "core/collective/all_to_all.hpp"

#include "core/base/error.hpp"
#include "core/collective/algorithm.hpp"
#include "core/collective/collective_table.hpp"
#include "core/collective/nccl/nccl_search.hpp"
#include "core/collective/point_to_point.hpp"
#include "core/collective/prepared_group.hpp"
#include "core/collective/traffic.hpp"

namespace rehearse {
namespace {

CollectiveChoice nothing() { return {"none", "Simple", 0, Seconds{}, BytesPerSecond{}, Seconds{}}; }

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

/// Time the wires need at least, given the algorithm's name, where it takes a look at every link to tell.
using WireTime = std::function<Seconds(std::string_view algorithm)>;

struct CallShape {
  CollectiveOp op;
  Bytes bytes;
  CallOptions options;
};

void check(const CallShape& call) {
  const Bytes bytes = call.bytes;
  if (call.options.grouped < 1)
    throw Error(ErrorKind::usage, fmt::format("{} calls in a group", call.options.grouped), "grouped collectives",
                "one or more");
  if (!(bytes.value() >= 0) || std::isinf(bytes.value()))
    throw Error(ErrorKind::usage, "a collective of " + std::to_string(bytes.value()) + " bytes", "collective size",
                "sizes are finite and not negative");
}

/// Whether a call's kernels move its pieces byte by byte.
bool bytewise(const CallShape& call, nccl::Protocol protocol, int ranks) {
  constexpr double kWidestLoad = 16;
  return call.options.packed && call.op == CollectiveOp::all_gather && protocol != nccl::Protocol::ll &&
         std::fmod(call.bytes.value() / ranks, kWidestLoad) != 0;
}

CollectiveChoice tuned(const PreparedGroup& g, const CallShape& call, bool measured, const WireTime& wire_time) {
  const auto pick = g.table.pick(call.op, call.bytes,
                                 {call.options.grouped, call.options.fp8_reduction, call.options.switch_reduces});
  CollectiveChoice out{
      std::string(name_of(pick.algorithm)), std::string(name_of(pick.protocol)), pick.channels, pick.latency, {}, {}};
  double gain = measured ? bandwidth_gain(g.measured, pick.algorithm, g.shape.ranks, g.shape.nodes) : 1.0;
  const BytesPerSecond nccl = g.achieved.bandwidth(call.op, pick.algorithm, pick.protocol, call.bytes);
  if (measured && bytewise(call, pick.protocol, g.shape.ranks)) gain *= g.measured.gpu.bytewise;
  BytesPerSecond reached = min(nccl * gain, wire_bound(g, call.op, pick.algorithm));
  if (!g.switched) reached = min(reached, call.bytes / wire_time(out.algorithm));
  const Seconds streaming = call.bytes / reached;
  if (!measured) return timed(out, call.bytes, pick.latency + streaming);
  const auto time = [&](Seconds t) {
    return measured_time(g.measured, {call.op, pick.algorithm, pick.protocol, pick.latency, t, g.shape.ranks,
                                      g.shape.nodes, g.per_node});
  };
  // Where the floor or the latency hides some of the streaming, the wires still need streaming time.
  out.latency = min(time(Seconds{}), time(streaming) - streaming);
  return timed(out, call.bytes, time(streaming));
}

const std::string& registered_name(const CollectiveAlgorithm& own) {
  static const std::string none;
  for (const auto& entry : collective_algorithms().entries())
    if (entry.value.get() == &own) return entry.name;
  return none;
}

/// Least time in which any algorithm's bytes leave the nodes and GPUs.
Seconds fastest(const PreparedGroup& g, CollectiveOp op, Bytes bytes) {
  using nccl::Algorithm;
  if (is_point_to_point(op)) return Seconds{};
  BytesPerSecond best;
  for (const auto a :
       {Algorithm::tree, Algorithm::ring, Algorithm::nvls, Algorithm::nvls_tree, Algorithm::collnet_direct}) {
    const BytesPerSecond bound = wire_bound(g, op, a);
    if (bound > best) best = bound;
  }
  return bytes / best;
}

}  // namespace

namespace {

/// All that prices of calls depend on.
struct Likeness {
  nccl::CommunicatorShape shape;
  WireLimits wires;
  int per_node;
  bool switched, through_host;
  int peer_links;
  std::vector<std::pair<const MachineSpec*, const GpuSpec*>> machines;
  std::optional<LayoutKey> places;  // Where it matters which GPUs of their nodes take part.
  bool operator==(const Likeness&) const = default;
};

Likeness likeness_of(const PreparedGroup& g, const LayoutKey& key, bool by_place) {
  Likeness out{g.shape, g.wires, g.per_node, g.switched, g.through_host, g.peer_links, {}, {}};
  for (const LayoutKey::Kind& kind : key.kinds) out.machines.emplace_back(kind.machine, kind.gpu);
  std::sort(out.machines.begin(), out.machines.end());
  out.machines.erase(std::unique(out.machines.begin(), out.machines.end()), out.machines.end());
  if (by_place) out.places = key;
  return out;
}

}  // namespace

struct CollectiveModel::Impl {
  const Cluster& cluster;
  Options options;
  nccl::Filter filter;
  struct Call {
    CollectiveOp op;
    double bytes;
    const PreparedGroup* group;
    CallOptions options;
    bool operator==(const Call&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Call& c) const {
      const auto mix = [](std::size_t a, std::size_t b) {
        return a ^ (b + static_cast<std::size_t>(0x9e3779b97f4a7c15ULL) + (a << 6) + (a >> 2));
      };
      const auto kind = std::size_t(c.op) + 16 * std::size_t(c.options.grouped) + (c.options.fp8_reduction ? 8 : 0) +
                        (c.options.switch_reduces ? 0 : 1024) + (c.options.packed ? 2048 : 0) +
                        (c.options.direct ? 4096 : 0);
      return mix(mix(std::hash<double>{}(c.bytes), std::hash<const void*>{}(c.group)), kind);
    }
  };
  mutable std::mutex mutex;
  mutable std::map<LayoutKey, PreparedGroup> groups;
  mutable nccl::NodeSearches searches{options.searches};
  mutable std::unordered_map<Call, CollectiveChoice, Hash> choices;
  mutable std::map<std::vector<DeviceId>, std::vector<FluidEdge>> exchanges;  // All-to-all of one byte a pair.
  mutable std::map<LayoutKey, int> likenesses;
  mutable std::vector<Likeness> kinds;  // By likeness.
  nccl::NodeRings node_rings;

  const CollectiveAlgorithm* asked;  // By name; null: NCCL's, or whatever runs by itself.

  Impl(const Cluster& c, Options o)
      : cluster(c),
        options(std::move(o)),
        filter(nccl::Filter::parse(find_algorithm(options.algorithm) ? "" : options.algorithm, options.protocol)),
        asked(find_algorithm(options.algorithm)) {
    if (options.min_channels < 0 || options.min_channels > 64)
      throw Error(ErrorKind::usage, fmt::format("{} channels", options.min_channels), "collective channels",
                  "0 to 64; 0 leaves them to NCCL");
  }

  const PreparedGroup& group_of(std::span<const DeviceId> group) const {
    auto key = key_of(cluster, group);
    auto at = groups.find(key);
    if (at == groups.end())
      at = groups
               .emplace(std::move(key),
                        prepare(cluster, layout_of(cluster, group), filter, options.min_channels, &searches))
               .first;
    return at->second;
  }

  int likeness(std::span<const DeviceId> group) const {
    const std::scoped_lock lock(mutex);
    LayoutKey key = key_of(cluster, group);
    if (const auto known = likenesses.find(key); known != likenesses.end()) return known->second;
    const PreparedGroup& g = group_of(group);
    const Likeness mine = likeness_of(g, key, !g.switched || traffic::routed_by_nodes(cluster));
    const auto at = std::find(kinds.begin(), kinds.end(), mine);
    const auto number = static_cast<int>(at - kinds.begin());
    if (at == kinds.end()) kinds.push_back(mine);
    return likenesses.emplace(std::move(key), number).first->second;
  }

  CollectiveChoice choose(const CallShape& call, std::span<const DeviceId> group) const {
    check(call);
    const std::scoped_lock lock(mutex);
    if (group.size() == 1 || call.bytes.value() == 0) return nothing();
    if (const CollectiveAlgorithm* own = without_nccl(call.op, group)) return by_itself(*own, call, group);
    const PreparedGroup& g = group_of(group);
    const Call key{call.op, call.bytes.value(), &g, call.options};
    if (const auto at = choices.find(key); at != choices.end()) return at->second;
    CollectiveChoice made = from_table(g, call, model(g, call, group), group);
    if (call.op != CollectiveOp::send_recv) {
      made.latency += options.skew;
      made.time += options.skew;
    }
    return choices.emplace(key, std::move(made)).first->second;
  }

  [[nodiscard]] CollectiveChoice model(const PreparedGroup& g, const CallShape& call,
                                       std::span<const DeviceId> group) const {
    const WireTime wire_time = [&](std::string_view algorithm) {
      return traffic::node_time(cluster, edges(call.op, call.bytes, group, algorithm));
    };
    if (is_point_to_point(call.op))
      return point_to_point(g, call.op, call.bytes,
                            g.switched && !traffic::routed_by_nodes(cluster) ? Seconds{} : wire_time("P2P"),
                            call.options.direct);
    return tuned(g, call, options.measured_latency, wire_time);
  }

  [[nodiscard]] const CollectiveAlgorithm* without_nccl(CollectiveOp op, std::span<const DeviceId> group) const {
    if (is_point_to_point(op) || group.size() < 2) return nullptr;
    if (asked != nullptr) {
      if (asked->runs(cluster, op, group)) return asked;
      throw Error(ErrorKind::usage,
                  fmt::format("{} does not run {} over {} ranks here", options.algorithm, name_of(op), group.size()),
                  "collective algorithm", "leave the choice open, or see 'rehearse list algorithms'");
    }
    for (const auto& entry : collective_algorithms().entries())
      if (entry.value != nullptr && entry.value->by_default() && entry.value->runs(cluster, op, group))
        return entry.value.get();
    return nullptr;
  }

  /// The price of an algorithm that is not NCCL's, or the user's measured time.
  [[nodiscard]] CollectiveChoice by_itself(const CollectiveAlgorithm& own, const CallShape& call,
                                           std::span<const DeviceId> group) const {
    CollectiveChoice c = own.price(cluster, call.op, call.bytes, group);
    c.algorithm = registered_name(own);
    if (options.table == nullptr) return c;
    const int ranks = static_cast<int>(group.size());
    const auto time = options.table->time(call.op, ranks, ranks, call.bytes,
                                          [&](Bytes bytes) { return own.price(cluster, call.op, bytes, group).time; });
    if (!time) return c;
    const Seconds streaming = c.time - c.latency;
    if (*time < streaming * (1 - 1e-9)) throw faster_than_wires(call, group.size(), *time, streaming);
    c.from_table = true;
    c.latency = *time - streaming;
    return timed(c, call.bytes, *time);
  }

  [[nodiscard]] Error faster_than_wires(const CallShape& call, std::size_t ranks, Seconds time, Seconds least) const {
    return {ErrorKind::usage,
            fmt::format("{} of {:.0f} bytes over {} ranks in {:.4g} us: the wires need {:.4g} us", name_of(call.op),
                        call.bytes.value(), ranks, time.value() * 1e6, least.value() * 1e6),
            options.table->origin(), "check the table, and that the cluster is the one it was measured on"};
  }

  /// `c` with the user's measured time, where there is one.
  [[nodiscard]] CollectiveChoice from_table(const PreparedGroup& g, const CallShape& call, CollectiveChoice c,
                                            std::span<const DeviceId> group) const {
    if (options.table == nullptr) return c;
    const auto model_time = [&](Bytes bytes) { return model(g, {call.op, bytes, call.options}, group).time; };
    const auto time = options.table->time(call.op, g.shape.ranks, g.shape.nodes, call.bytes, model_time);
    if (!time) return c;
    if (const Seconds least = fastest(g, call.op, call.bytes); *time < least * (1 - 1e-9))
      throw faster_than_wires(call, group.size(), *time, least);
    c.from_table = true;
    const Seconds streaming = c.time - c.latency;
    c.latency = *time > streaming ? *time - streaming : Seconds{};
    return timed(c, call.bytes, *time);
  }

  /// Worked out once per group: sizes only scale it.
  [[nodiscard]] std::vector<FluidEdge> all_to_all(const GroupLayout& layout, Bytes bytes,
                                                  std::span<const DeviceId> group) const {
    const std::vector<DeviceId> key(group.begin(), group.end());
    auto at = exchanges.find(key);
    if (at == exchanges.end())
      at = exchanges.emplace(key, traffic::all_to_all(cluster, layout, Bytes{double(layout.ranks)})).first;
    std::vector<FluidEdge> out = at->second;
    for (FluidEdge& e : out) e.bytes = bytes / double(layout.ranks) * e.bytes.value();
    return out;
  }

  [[nodiscard]] std::vector<FluidEdge> edges(CollectiveOp op, Bytes bytes, std::span<const DeviceId> group,
                                             std::string_view algorithm) const {
    if (const CollectiveAlgorithm* own = find_algorithm(algorithm)) return own->edges(cluster, op, bytes, group);
    const GroupLayout layout = layout_of(cluster, group);
    const auto orders = [&](const GroupLayout::Node& n) {
      std::vector<int> local;
      for (const DeviceId d : n.devices) local.push_back(cluster.local_index(d));
      return node_rings.of(cluster.machine(n.node), cluster.gpu(n.devices.front()), local);
    };
    if (op == CollectiveOp::all_to_all) return all_to_all(layout, bytes, group);
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
    const bool reduced = algorithm.starts_with("CollNet") || (algorithm == "NVLS" && layout.nodes.size() > 1);
    if (reduced && op == CollectiveOp::all_reduce)
      return joined(traffic::reduced_in_network(layout, bytes),
                    algorithm == "NVLS" ? traffic::nvls(layout, bytes) : traffic::chains(layout, orders, bytes));
    if (algorithm == "NVLS" && op == CollectiveOp::all_reduce) return traffic::nvls(layout, bytes);
    if (algorithm == "NVLSTree") return joined(traffic::double_tree(layout, bytes), traffic::nvls(layout, bytes));
    const bool rooted = op == CollectiveOp::broadcast || op == CollectiveOp::reduce;
    return traffic::rings(layout, orders, bytes * bus_factor(op, layout.ranks), rooted ? group.front() : -1,
                          op == CollectiveOp::broadcast);
  }
};

CollectiveModel::CollectiveModel(const Cluster& cluster) : CollectiveModel(cluster, Options{}) {}
CollectiveModel::CollectiveModel(const Cluster& cluster, Options options)
    : impl_(std::make_unique<Impl>(cluster, std::move(options))) {}
CollectiveModel::~CollectiveModel() = default;
CollectiveModel::CollectiveModel(CollectiveModel&&) noexcept = default;

CollectiveChoice CollectiveModel::choose(CollectiveOp op, Bytes bytes, std::span<const DeviceId> group,
                                         const CallOptions& call) const {
  return impl_->choose({op, bytes, call}, group);
}

FluidPlan CollectiveModel::plan(CollectiveOp op, Bytes bytes, std::span<const DeviceId> group,
                                const CallOptions& call) const {
  const CollectiveChoice choice = choose(op, bytes, group, call);
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

const CollectiveAlgorithm* CollectiveModel::without_nccl(CollectiveOp op, std::span<const DeviceId> group) const {
  return impl_->without_nccl(op, group);
}

int CollectiveModel::likeness(std::span<const DeviceId> group) const { return impl_->likeness(group); }

}  // namespace rehearse
