#pragma once
// `nvidia-smi topo -m`: the matrix as text, and the wiring that it allows.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/cluster/topology_matrix.hpp"
#include "core/import/topology/machine_draft.hpp"

namespace rehearse {

struct SmiTopology {
  /// GPUs, then NICs. Affinities where the text has them; `device` from the legend of NICs, where there is one.
  TopologyMatrix matrix;
  bool has_numa = false;
};

/// Reads all variants: tabs or spaces, with and without NUMA columns, NICs by number (with their legend) or by device
/// name, colours, rows that were wrapped when they were pasted. Throws Error (usage), `where` "origin:line": a header
/// without GPUs, a device without a row (a part of the matrix), a cell that is no class, a matrix that is not
/// symmetric, more than 512 devices.
[[nodiscard]] SmiTopology parse_smi_topology(std::string_view text, const std::string& origin);

/// CPUs, PCIe switches and host bridges that give exactly this matrix: devices that are not SYS to each other share a
/// CPU; PXB and PIX are trees of switches; PHB shares a host bridge. NVLinks are point to point unless a GPU would need
/// more than it has, or all pairs of more than two GPUs have as many as the GPU: then they go to NVSwitches. `gpu`
/// gives the NVLinks and the PCIe slot. Throws Error (usage) where no tree has this matrix.
[[nodiscard]] MachineDraft draft_of(const SmiTopology& smi, const GpuSpec& gpu, const std::string& origin);

}  // namespace rehearse
