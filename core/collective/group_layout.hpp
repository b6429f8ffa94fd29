#pragma once
// Where the ranks of a group sit: the part of a communicator that NCCL's choice, its price and its traffic depend on.

#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "core/cluster/cluster.hpp"

namespace rehearse {

/// The group's devices node by node, in the cluster's order. O(group) when the group is sorted by device, else O(n log
/// n).
struct GroupLayout {
  struct Node {
    NodeId node = 0;
    std::vector<DeviceId> devices;  ///< Ascending.
  };
  std::vector<Node> nodes;
  int ranks = 0;
  int least_per_node = 0;
};
/// Throws Error (usage) when the group is empty or names a device twice.
[[nodiscard]] GroupLayout layout_of(const Cluster& cluster, std::span<const DeviceId> group);

/// Groups with equal keys cost the same: as many ranks and nodes, and the same kinds of node, a kind being a machine
/// and which of its GPUs take part.
struct LayoutKey {
  struct Kind {
    const MachineSpec* machine = nullptr;
    const GpuSpec* gpu = nullptr;
    std::vector<std::uint64_t> local;  ///< Bit set of local indices.
    bool operator==(const Kind&) const = default;
    bool operator<(const Kind& o) const { return std::tie(machine, gpu, local) < std::tie(o.machine, o.gpu, o.local); }
  };
  int ranks = 0;
  int nodes = 0;
  std::vector<Kind> kinds;  ///< Distinct.
  bool operator==(const LayoutKey&) const = default;
  bool operator<(const LayoutKey& o) const {
    return std::tie(ranks, nodes, kinds) < std::tie(o.ranks, o.nodes, o.kinds);
  }
};
[[nodiscard]] LayoutKey key_of(const Cluster& cluster, std::span<const DeviceId> group);

}  // namespace rehearse
