#pragma once
// Collectives as NCCL runs them: which algorithm, protocol and how many channels, how long alone, and what flows on the
// wire.

#include <compare>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.hpp"
#include "core/cluster/cluster.hpp"
#include "core/collective/collective_op.hpp"

namespace rehearse {

/// Ratio of bus bandwidth to algorithm bandwidth as nccl-tests defines it (PERFORMANCE.md): 2(n-1)/n for all-reduce,
/// (n-1)/n for all-gather, reduce-scatter and all-to-all, 1 otherwise.
[[nodiscard]] double bus_factor(CollectiveOp op, int ranks);

/// What was chosen for one call and what it costs with the wires to itself.
struct CollectiveChoice {
  /// "Ring", "Tree", "NVLS", "NVLSTree", "CollNetDirect", "CollNetChain", "PAT", "P2P", "none" for one rank;
  /// "Torus" where chips reduce along their own rings.
  std::string algorithm;
  std::string protocol;      ///< "LL", "LL128", "Simple".
  int channels = 0;          ///< Thread blocks, hence SMs, the kernel occupies.
  Seconds latency;           ///< Size-independent part.
  BytesPerSecond bandwidth;  ///< Algorithm bandwidth: time = latency + bytes / bandwidth.
  Seconds time;
  bool from_table = false;  ///< The time is measured (CollectiveTable), the rest is the model's.
};

/// What the choice depends on beyond operation, size and group.
struct CallOptions {
  /// Equal calls between ncclGroupStart and ncclGroupEnd, which NCCL runs as one kernel; `bytes` is the sum over them.
  /// NCCL sums up those of one operation and type whose sizes differ by less than a factor of 4.
  int grouped = 1;
  bool fp8_reduction = false;  ///< The reduction is of 8-bit floats.
  /// Switches know the reduction (sum, min, max of a common type): NVLS and CollNet may take part.
  bool switch_reduces = true;
  /// The ranks' pieces follow each other unpadded. Where a gather's do not begin on multiples of 16 bytes, its kernels
  /// move them byte by byte: so do LL128 and Simple in NCCL 2.8 (prims_ll128.h, common_kernel.h; NVIDIA/nccl issue
  /// 413).
  bool packed = false;
  /// An all-to-all by kernels of its caller's own: no library's sends and receives, and nothing of what those take
  /// longer.
  bool direct = false;
  auto operator<=>(const CallOptions&) const = default;
};

class CollectiveTable;  // collective_table.hpp
namespace nccl {
class SystemSearches;  // nccl/nccl_search.hpp
}

/// One edge of a collective's steady traffic: `bytes` flow from `src` to `dst` over the whole call.
struct FluidEdge {
  DeviceId src;
  DeviceId dst;
  Bytes bytes;
};

/// A collective as fluid flows: all edges start together, each limited to `rate_cap`; the call ends `latency` after the
/// last. With the wires to itself it takes exactly CollectiveChoice::time.
struct FluidPlan {
  std::vector<FluidEdge> edges;
  BytesPerSecond rate_cap;  ///< Of the busiest edge; an edge with fewer bytes is slower in proportion.
  Seconds latency;
};

class CollectiveAlgorithm;  // algorithm.hpp

/// Prices and plans collectives on one cluster. Results are cached per (operation, group shape, size).
class CollectiveModel {
 public:
  struct Options {
    /// As NCCL_ALGO: forces one; empty lets the model choose. The name of an algorithm that is not NCCL's
    /// (collective_algorithms()) has every call run by it, and refuses what it cannot run.
    std::string algorithm;
    std::string protocol;  ///< As NCCL_PROTO.
    /// Use latencies measured inside training steps and benchmarks (launch skew included) in place of NCCL's own tuning
    /// constants, which choose but do not predict small messages. The choice itself is always NCCL's.
    bool measured_latency = true;
    int min_channels = 0;  ///< As NCCL_MIN_NCHANNELS, 0 to 64; 0 leaves it to NCCL.
    /// Added to every call but send_recv: what passes until all ranks have queued it, on account of the code that
    /// launches them (0 or more). It delays the call and holds no wire. Hops of a ring and messages between stages are
    /// not charged: who receives has queued its end before.
    Seconds skew{0};
    /// Measured times that go before the model's, where they speak of a call's operation, ranks and nodes. May be null.
    std::shared_ptr<const CollectiveTable> table{};
    /// Searches for NCCL's channels that are kept from one model to the next. May be null.
    std::shared_ptr<nccl::SystemSearches> searches{};

    bool operator==(const Options&) const = default;  ///< Tables are the same where they are one object.
  };
  explicit CollectiveModel(const Cluster& cluster);
  CollectiveModel(const Cluster& cluster, Options options);
  ~CollectiveModel();
  CollectiveModel(CollectiveModel&&) noexcept;

  /// `bytes` is the size NCCL's formulas take: the whole buffer for all-reduce, broadcast and reduce; ranks x per-rank
  /// count (the large side) for all-gather and reduce-scatter; the bytes one rank sends in all for all-to-all; the
  /// larger message between two neighbours for a halo exchange. `group` lists the devices in rank order. A group of one
  /// costs nothing. Throws Error (usage) for a group that names a device twice, for algorithms that cannot run the
  /// call, and for a measured time that no wire of the cluster allows.
  [[nodiscard]] CollectiveChoice choose(CollectiveOp op, Bytes bytes, std::span<const DeviceId> group,
                                        const CallOptions& call = {}) const;
  /// The same call as flows. Edges of one device pair are merged.
  [[nodiscard]] FluidPlan plan(CollectiveOp op, Bytes bytes, std::span<const DeviceId> group,
                               const CallOptions& call = {}) const;
  /// One message between two devices.
  [[nodiscard]] CollectiveChoice send(Bytes bytes, DeviceId src, DeviceId dst) const;
  /// The algorithm that is not NCCL's by which such calls run; null where NCCL chooses.
  [[nodiscard]] const CollectiveAlgorithm* without_nccl(CollectiveOp op, std::span<const DeviceId> group) const;
  /// A number that two groups share only where every call costs both the same: NCCL finds as much in either, and their
  /// wires are as fast. GPUs with NICs of their own behind a switch are alike; where calls are priced link by link,
  /// only groups of the same GPUs of their nodes.
  [[nodiscard]] int likeness(std::span<const DeviceId> group) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rehearse
