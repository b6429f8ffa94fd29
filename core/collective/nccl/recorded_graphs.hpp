#pragma once
// Channels that NCCL itself found on a machine (NCCL_GRAPH_DUMP_FILE), in place of our search.

#include "core/collective/nccl/nccl_search.hpp"

namespace rehearse::nccl {

/// `found` with what `machine.nccl_graphs` records: ring (id 0), tree (1) and NVLS (3); the rest is kept. They stand
/// for all GPUs of one machine among themselves: groups that leave the node, or take a part of it, are searched. Throws
/// Error (usage) for a path that NCCL does not have.
[[nodiscard]] NodeSearch with_recorded_graphs(NodeSearch found, const MachineSpec& machine);

}  // namespace rehearse::nccl
