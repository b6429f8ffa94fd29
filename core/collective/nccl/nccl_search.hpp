#pragma once
// From wires to what NCCL's topology search finds: channels, GB/s per channel and path classes of rings, trees and
// NVLS.
//
// NCCL's own procedure step by step (2.28.9: graph/topo.cc, paths.cc, search.cc, init.cc), not a rule per machine: the
// wiring becomes a graph (nccl_system.hpp), paths between GPUs and NICs are found and re-routed (nccl_paths.hpp), and
// settings from fast and strict to slow and lenient are tried until channels fit into the links (graph_passes.hpp,
// channel_search.hpp).
//
// Not searched: CollNet (off by default). What a machine file does not say is taken as NCCL finds it on most hosts:
// GPUs and NICs numbered in PCI bus order, every NIC an adapter of its own, one NUMA node per CPU, no NCCL_* variable
// set. Where two numberings of the same wires lead NCCL to different results, `search_node` gives that of the file, and
// `search` the best (numberings.hpp).

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "core/cluster/cluster.hpp"
#include "core/collective/nccl/nccl_system.hpp"
#include "core/collective/nccl/nccl_tuning.hpp"
#include "core/hardware/specs.hpp"

namespace rehearse::nccl {

/// The search as the GPUs of one node see it.
struct NodeSearch : SearchResult {
  /// Sets of GPUs that NCCL treats as nodes of their own, because their NICs are nearer than each other; usually 1.
  int parts = 1;
};

/// What was found in systems so far, whoever asks: for programs that work out many scenarios one after the other, whose
/// machines come and go. Any number of threads.
class SystemSearches {
 public:
  struct Asked {
    System system;
    bool leaves_node = false;
    bool multicast = false;
    bool operator==(const Asked&) const = default;
  };
  /// Worked out by `search` the first time.
  [[nodiscard]] SearchResult of(const Asked& asked, const std::function<SearchResult()>& search);

 private:
  std::mutex mutex_;
  std::vector<std::pair<Asked, SearchResult>> known_;
};

/// `gpus`: local indices of the group's devices; `leaves_node`: the group has devices elsewhere. `known` may be null.
/// Throws Error (usage) for no GPU. One GPU alone needs no channel: one at NCCL's local speed.
[[nodiscard]] NodeSearch search_node(const MachineSpec& machine, const GpuSpec& gpu, std::span<const int> gpus,
                                     bool leaves_node, SystemSearches* known = nullptr);

/// What nodes agree on: the fewest channels, lowest speeds and worst paths of all (init.cc, AllGather3).
[[nodiscard]] SearchResult agree(const SearchResult& a, const SearchResult& b);

struct GroupSearch : SearchResult {
  int nodes = 1;  ///< As NCCL counts them: the sum of all nodes' parts.
};

/// What was found for nodes so far: groups of any size whose GPUs lie alike on a node share it. One thread at a time;
/// machines must outlive it.
class NodeSearches {
 public:
  NodeSearches() = default;
  /// `systems` is asked for what is not known here; may be null.
  explicit NodeSearches(std::shared_ptr<SystemSearches> systems) : systems_(std::move(systems)) {}

  /// `search_best_numbered`, `gpus` in ascending order.
  const NodeSearch& of(const MachineSpec& machine, const GpuSpec& gpu, const std::vector<int>& gpus, bool leaves_node);

 private:
  std::shared_ptr<SystemSearches> systems_;
  std::map<std::tuple<const MachineSpec*, std::vector<int>, bool>, NodeSearch> known_;
};

/// The search of a whole group: once per kind of node, agreed. Throws Error (usage) for an empty group.
[[nodiscard]] GroupSearch search(const Cluster& cluster, std::span<const DeviceId> group, NodeSearches& known);
[[nodiscard]] GroupSearch search(const Cluster& cluster, std::span<const DeviceId> group);

/// Orders in which rings pass the GPUs inside a node, as positions in `gpus`, one per channel. One order, the given
/// one, where an NVSwitch joins all; else the rings that the search finds inside the node.
using RingOrders = std::vector<std::vector<int>>;
[[nodiscard]] RingOrders node_rings(const MachineSpec& machine, const GpuSpec& gpu, std::span<const int> gpus);

/// `node_rings`, searched once per kind of node. May be asked from several threads; machines must outlive it.
class NodeRings {
 public:
  const RingOrders& of(const MachineSpec& machine, const GpuSpec& gpu, std::span<const int> gpus) const;

 private:
  mutable std::mutex mutex_;
  mutable std::map<std::pair<const MachineSpec*, std::vector<int>>, RingOrders> known_;
};

[[nodiscard]] CpuVendor cpu_vendor_of(const MachineSpec& machine);

}  // namespace rehearse::nccl
