#pragma once
// Collectives as NCCL runs them: which algorithm, protocol and how many channels, how long alone, and what flows on the wire.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/cluster/cluster.hpp"
#include "core/collective/collective_op.hpp"
#include "core/units/units.hpp"

namespace rehearse {

/// Ratio of bus bandwidth to algorithm bandwidth as nccl-tests defines it (PERFORMANCE.md): 2(n-1)/n for all-reduce,
/// (n-1)/n for all-gather, reduce-scatter and all-to-all, 1 otherwise.
[[nodiscard]] double bus_factor(CollectiveOp op, int ranks);

/// What was chosen for one call and what it costs with the wires to itself.
struct CollectiveChoice {
  std::string algorithm;  ///< "Ring", "Tree", "NVLS", "NVLSTree", "CollNetDirect", "CollNetChain", "PAT", "P2P", "none" for one rank.
  std::string protocol;   ///< "LL", "LL128", "Simple".
  int channels = 0;       ///< Thread blocks, hence SMs, the kernel occupies.
  Seconds latency;        ///< Size-independent part.
  BytesPerSecond bandwidth;  ///< Algorithm bandwidth: time = latency + bytes / bandwidth.
  Seconds time;
};

/// One edge of a collective's steady traffic: `bytes` flow from `src` to `dst` over the whole call.
struct FluidEdge {
  DeviceId src;
  DeviceId dst;
  Bytes bytes;
};

/// A collective as fluid flows: all edges start together, each limited to `rate_cap`; the call ends `latency` after the last.
/// With the wires to itself it takes exactly CollectiveChoice::time.
struct FluidPlan {
  std::vector<FluidEdge> edges;
  BytesPerSecond rate_cap;  ///< Of the busiest edge; an edge with fewer bytes is slower in proportion.
  Seconds latency;
};

/// Prices and plans collectives on one cluster. Results are cached per (operation, group shape, size).
class CollectiveModel {
 public:
  struct Options {
    std::string algorithm;  ///< As NCCL_ALGO: forces one; empty lets the model choose.
    std::string protocol;   ///< As NCCL_PROTO.
    /// Use latencies measured inside training steps and benchmarks (launch skew included) in place of NCCL's own tuning
    /// constants, which choose but do not predict small messages. The choice itself is always NCCL's.
    bool measured_latency = true;
  };
  explicit CollectiveModel(const Cluster& cluster);
  CollectiveModel(const Cluster& cluster, Options options);
  ~CollectiveModel();
  CollectiveModel(CollectiveModel&&) noexcept;

  /// `bytes` is the size NCCL's formulas take: the whole buffer for all-reduce, broadcast and reduce; ranks x per-rank
  /// count (the large side) for all-gather and reduce-scatter; the bytes one rank sends in all for all-to-all; the larger message
  /// between two neighbours for a halo exchange.
  /// `group` lists the devices in rank order. A group of one costs nothing.
  [[nodiscard]] CollectiveChoice choose(CollectiveOp op, Bytes bytes, std::span<const DeviceId> group) const;
  /// The same call as flows. Edges of one device pair are merged.
  [[nodiscard]] FluidPlan plan(CollectiveOp op, Bytes bytes, std::span<const DeviceId> group) const;
  /// One message between two devices.
  [[nodiscard]] CollectiveChoice send(Bytes bytes, DeviceId src, DeviceId dst) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rehearse
