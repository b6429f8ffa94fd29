#pragma once
// What is worked out once per kind of group: NCCL's table, what the wires allow, and the constants of the generation.

#include "core/collective/group_layout.hpp"
#include "core/collective/measured_latency.hpp"
#include "core/collective/nccl/nccl_search.hpp"
#include "core/collective/nccl/nccl_tuning.hpp"

namespace rehearse {

/// Rates of the slowest node of the group.
struct WireLimits {
  BytesPerSecond edge_inside;   ///< One flow between two GPUs of a node; the slowest pair that rings use.
  BytesPerSecond total_inside;  ///< All rings through one GPU together.
  BytesPerSecond edge_across;   ///< One flow between nodes: the slowest link of its route.
  BytesPerSecond total_across;  ///< All flows out of one node: its NICs that the group's GPUs use.
  bool operator==(const WireLimits&) const = default;
};

struct PreparedGroup {
  nccl::CommunicatorShape shape;  ///< With rates that are reached where NCCL's search found no path.
  nccl::TuningTable table;        ///< NCCL decides by it.
  nccl::TuningTable achieved;     ///< The same with the thread blocks that the user asked for.
  WireLimits wires;
  MeasuredCosts measured;
  int per_node = 1;           ///< Fewest ranks on one node.
  bool switched = true;       ///< Every node has an NVSwitch, or one rank.
  bool through_host = false;  ///< Some pair inside a node has no NVLink.
  int peer_links = 1;         ///< NVLinks between the two GPUs of a node that have fewest; 1 where two have none.
};

/// `min_channels`: NCCL_MIN_NCHANNELS, 0 for none. `known`: what was found for nodes before, or null.
[[nodiscard]] PreparedGroup prepare(const Cluster& cluster, const GroupLayout& layout, const nccl::Filter& filter,
                                    int min_channels = 0, nccl::NodeSearches* known = nullptr);

/// What NCCL's search would find for CollNet, by rule from what it found for rings and trees: a chain per ring channel,
/// at the tree's speed inside and the NIC's outside; for the direct algorithm one head per NIC at the NIC's speed. An
/// estimate: no recorded configuration has CollNet. Nothing where a group stays in one node or the network does not
/// reduce.
void add_collnet(nccl::SearchResult& search, bool sharp, int nodes);

/// The algorithm bandwidth that the wires allow `a` at most: no more leaves a node or a GPU than its links carry.
/// Links inside the fabric are not looked at: an oversubscribed fabric shows when the flows are played.
[[nodiscard]] BytesPerSecond wire_bound(const PreparedGroup& g, CollectiveOp op, nccl::Algorithm a);

}  // namespace rehearse
