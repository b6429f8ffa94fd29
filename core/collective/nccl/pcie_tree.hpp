#pragma once
// The PCIe tree of a machine, ordered; and which parts of it are one host.

#include <compare>
#include <limits>
#include <vector>

#include "core/hardware/specs.hpp"

namespace rehearse::nccl {

/// Numbers are indices into `MachineSpec::vertices` and `links`. A vertex with two ways up keeps the shorter one.
struct PcieTree {
  struct Child {
    int vertex;
    int link;
  };
  std::vector<int> roots;                    ///< CPUs in order.
  std::vector<std::vector<Child>> children;  ///< Of every vertex, in order.
  std::vector<int> host;                     ///< Of every vertex: hosts are joined by NVLink alone.
  int hosts = 1;                             ///< Hosts with a CPU.
};

[[nodiscard]] PcieTree pcie_tree_of(const MachineSpec& machine);

}  // namespace rehearse::nccl
