#pragma once
// What NCCL's search needs to know of the wires between some GPUs of one machine.

#include <span>
#include <vector>

#include "core/hardware/specs.hpp"

namespace rehearse::nccl {

/// GPUs are positions in the list that `wiring_of` was given. Rates are those NCCL's search takes (graph/topo.h), GB/s.
struct NodeWiring {
  int gpus = 0;
  double nvlink = 0;                     ///< To the NVSwitch, or over all direct links, of the GPU that has least.
  bool nvswitch = false;
  std::vector<std::vector<int>> bricks;  ///< Direct NVLink bricks between two GPUs.
  double brick = 0;                      ///< One brick.
  double pcie = 0;                       ///< One GPU's PCIe slot.
  double socket = 0;                     ///< Between CPU sockets; 0 where the GPUs share one.
  bool one_pcie_switch = false;          ///< All GPUs below the same PCIe switch.
  int nics = 0;                          ///< NICs next to one of the GPUs (same PCIe switch or host bridge).
  double nic = 0;                        ///< One NIC.
  int lone_gpus = 0;                     ///< GPUs whose PCIe switch serves other GPUs of the machine, none of them in the group.
  bool nic_elsewhere = false;            ///< Some GPU has no NIC below its own PCIe switch.
};

[[nodiscard]] NodeWiring wiring_of(const MachineSpec& machine, std::span<const int> gpus);

/// The most rings through all GPUs that a set of direct links carries at once, each ring taking one brick per hop and
/// direction (edge-disjoint directed Hamiltonian cycles). Each ring is an order of positions. Empty where there is none.
/// Exact for the machines NCCL knows (at most 8 GPUs); beyond `kPackingBudget` steps the best found so far is returned.
[[nodiscard]] std::vector<std::vector<int>> pack_rings(const std::vector<std::vector<int>>& bricks);
inline constexpr long kPackingBudget = 2'000'000;

}  // namespace rehearse::nccl
