#pragma once
// Which bytes a collective moves between which devices: one function per algorithm. No times.

#include <functional>
#include <vector>

#include "core/collective/collective.hpp"
#include "core/collective/group_layout.hpp"

namespace rehearse::traffic {

/// Orders in which rings pass the devices of a node, as positions in its device list.
using NodeRings = std::function<std::vector<std::vector<int>>(const GroupLayout::Node&)>;

/// Rings over the whole group, rotated so that in ring k each node is entered at its k-th device: with as many rings as
/// devices per node every NIC carries an equal share. `per_edge` bytes flow over each edge, all rings together.
/// `root` (or -1): nothing flows into it (`into_root` true) or out of it (false), as broadcasts and reductions leave
/// open.
[[nodiscard]] std::vector<FluidEdge> rings(const GroupLayout& g, const NodeRings& orders, Bytes per_edge, DeviceId root,
                                           bool into_root);

/// Double binary tree over nodes, up and down, per head device: all-reduce of `bytes` (Sanders, Speck, Traeff 2009;
/// graph/trees.cc). Each tree takes half of the bytes.
[[nodiscard]] std::vector<FluidEdge> double_tree(const GroupLayout& g, Bytes bytes);
/// What a tree all-reduce moves inside nodes: a chain per head device, up and down, along a ring of the node.
[[nodiscard]] std::vector<FluidEdge> chains(const GroupLayout& g, const NodeRings& orders, Bytes bytes);

/// All-reduce by NVSwitch multicast. An edge needs two devices, so a GPU's traffic with the switch (`bytes` up and
/// as many down) is laid as a ring over the node's devices: each GPU's links carry what they carry in truth.
[[nodiscard]] std::vector<FluidEdge> nvls(const GroupLayout& g, Bytes bytes);

/// What switches that reduce (SHARP) move between nodes for an all-reduce: each node's share leaves through each head
/// once and comes back once. An edge needs two devices, so it is laid as a ring over the heads of one rail: each NIC
/// carries what it carries in truth.
[[nodiscard]] std::vector<FluidEdge> reduced_in_network(const GroupLayout& g, Bytes bytes);

/// Whether nodes pass on the traffic of others: the links of a torus then count with those of nodes.
[[nodiscard]] bool routed_by_nodes(const Cluster& cluster);
/// Longest time that any link inside a node, or any NIC, needs for these edges all at once; the fabric's switches are
/// left out.
[[nodiscard]] Seconds node_time(const Cluster& cluster, const std::vector<FluidEdge>& edges);

/// Sorts by (src, dst) and adds up the bytes of equal pairs.
[[nodiscard]] std::vector<FluidEdge> merged(std::vector<FluidEdge> edges);

}  // namespace rehearse::traffic
