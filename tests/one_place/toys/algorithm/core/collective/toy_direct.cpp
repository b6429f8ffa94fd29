// Every rank exchanges its pieces with every other at once, without NCCL: reduce-scatter, gather, or one after the
// other.

#include "core/collective/algorithm.hpp"
#include "core/collective/traffic.hpp"

namespace rehearse {

namespace {

class ToyDirect final : public CollectiveAlgorithm {
 public:
  bool runs(const Cluster&, CollectiveOp op, std::span<const DeviceId>) const override {
    return op == CollectiveOp::all_reduce || op == CollectiveOp::all_gather || op == CollectiveOp::reduce_scatter;
  }
  CollectiveChoice price(const Cluster& cluster, CollectiveOp op, Bytes bytes,
                         std::span<const DeviceId> group) const override {
    CollectiveChoice out{"", "Simple", 1, {}, {}, {}};
    for (const DeviceId d : group)
      if (d != group.front()) out.latency = max(out.latency, cluster.route(group.front(), d).latency);
    const Seconds streaming = traffic::node_time(cluster, edges(cluster, op, bytes, group));
    out.time = out.latency + streaming;
    if (streaming > Seconds{}) out.bandwidth = bytes / streaming;
    return out;
  }
  std::vector<FluidEdge> edges(const Cluster&, CollectiveOp op, Bytes bytes,
                               std::span<const DeviceId> group) const override {
    const double passes = op == CollectiveOp::all_reduce ? 2 : 1;
    std::vector<FluidEdge> out;
    for (const DeviceId a : group)
      for (const DeviceId b : group)
        if (a != b) out.push_back({a, b, bytes * passes / static_cast<double>(group.size())});
    return out;
  }
  std::vector<std::string> sources(const Cluster&) const override {
    return {"No NCCL: every rank exchanges its pieces with every other at once."};
  }
};

[[maybe_unused]] const bool registered_toy_direct =
    collective_algorithms().add({"ToyDirect",
                                 "no NCCL: every rank exchanges its pieces with every other at once",
                                 {},
                                 std::make_shared<ToyDirect>()});

}  // namespace

}  // namespace rehearse
