#pragma once
// From wires to what NCCL's topology search finds: channels and GB/s per channel of rings, trees and NVLS.
//
// NCCL searches all orders of GPUs and NICs under a time limit. Here the result follows from the machine by rule:
//   ring in a node    the table speed s with the largest s * floor(NVLink / s); half-speed channels are doubled up
//   ring across nodes one channel per NIC next to the group, at the largest table speed a NIC and the PCIe slots carry
//   tree              the ring's channels, faster inside the node where NVLink allows
//   NVLS              one channel per GPU; its head takes two shares of NVLink, the others one
// Speed tables, thresholds: graph/search.cc of NCCL 2.28.9.
//
// Where this is proved (tests/unit/collective compares with 2510 recorded searches of that version):
//   DGX A100, p4d, DGX H100 (and H200), DGX B200: rings and NVLS of every subset of the eight GPUs, in one node and across
//   nodes; trees of every subset on H100 and B200 and of every subset on A100 that fills its PCIe switches.
//   DGX-1V: all eight GPUs, in one node and across nodes; rings of subsets in one node that direct NVLinks can carry,
//   found by exact packing.
// Known to differ: across nodes, trees of subsets that leave GPUs alone below a PCIe switch (64 of the 255 subsets of a DGX
// A100, 48 of p4d): NCCL's search ends in slower fallbacks there, once at 0.1 GB/s. On a DGX-1V, subsets that need a relaying GPU,
// and trees of subsets. The rule for other machines (PCIe only, full meshes) gives one channel at the slowest hop: an estimate.

#include <span>
#include <vector>

#include "core/cluster/cluster.hpp"
#include "core/collective/nccl_tuning.hpp"
#include "core/hardware/specs.hpp"

namespace rehearse::nccl {

/// The search as one node sees it. `gpus`: local indices of the group's devices; `leaves_node`: the group has devices elsewhere.
[[nodiscard]] SearchResult search_node(const MachineSpec& machine, const GpuSpec& gpu, std::span<const int> gpus, bool leaves_node);

/// What nodes agree on: the fewest channels, lowest speeds and worst paths of all (init.cc, AllGather3).
[[nodiscard]] SearchResult agree(const SearchResult& a, const SearchResult& b);

/// The search of a whole group: `search_node` of every node, agreed. Throws Error (usage) for an empty group.
[[nodiscard]] SearchResult search(const Cluster& cluster, std::span<const DeviceId> group);

/// Orders in which rings pass the GPUs inside a node, as positions in `gpus`. One order, the given one, where an
/// NVSwitch or PCIe makes all orders alike; the packed rings where GPUs are wired directly.
[[nodiscard]] std::vector<std::vector<int>> node_rings(const MachineSpec& machine, std::span<const int> gpus);

[[nodiscard]] CpuVendor cpu_vendor_of(const MachineSpec& machine);

}  // namespace rehearse::nccl
