#pragma once
// The search under several numberings of a node's devices.

#include "core/collective/nccl/nccl_search.hpp"

namespace rehearse::nccl {

/// Numberings tried besides the file's.
inline constexpr int kNumberings = 15;

/// NCCL walks GPUs and NICs in PCI bus order and stops after a number of steps, so that on lopsided wires its result
/// hangs on numbers that a machine file does not state. A whole node is therefore searched under its own numbering and
/// `kNumberings` others, drawn from a fixed seed, and the best is taken: most GB/s in rings, then trees, then NVLS.
/// Parts of a node, nodes of more than 16 GPUs, and nodes whose GPUs all hang on NVSwitches, where numbers cannot
/// matter, are searched once. Channels that the machine's file records go before (recorded_graphs.hpp).
[[nodiscard]] NodeSearch search_best_numbered(const MachineSpec& machine, const GpuSpec& gpu, std::span<const int> gpus,
                                              bool leaves_node, SystemSearches* known = nullptr);

/// Whether every one of `gpus` has a link to an NVSwitch.
[[nodiscard]] bool all_on_nvswitch(const MachineSpec& machine, std::span<const int> gpus);

}  // namespace rehearse::nccl
