#pragma once
// What a link inside a machine carries and how long a crossing takes, by technology (topologies/interconnects.json).
// Machine files name the technology; a link may state its own figures instead.

#include <array>
#include <map>
#include <string>
#include <vector>

#include "core/hardware/specs.hpp"

namespace rehearse {

/// What MachineSpec::cpu_vendor may be.
inline const std::array<std::string, 5> kCpuVendors{"intel", "amd", "arm", "power", "zhaoxin"};

struct Interconnects {
  /// Rates are one direction. PCIe: of a x16 slot; sockets: all links between two sockets.
  struct Rates {
    BytesPerSecond raw;
    BytesPerSecond nccl;   ///< What NCCL's topology search takes (graph/topo.h).
    std::string vendor{};  ///< Sockets: of the CPUs they join, as MachineSpec::cpu_vendor.
  };

  std::map<int, Rates> pcie_x16;                                      ///< By generation.
  std::map<std::string, Rates> sockets;                               ///< "qpi_broadwell", "xgmi_rome", ...
  Seconds nvlink_latency, pcie_latency, socket_latency, c2c_latency;  ///< One crossing of one link.
  std::vector<Source> sources;

  /// Of a slot with `lanes` lanes. Throws Error (usage) for a generation that is not listed.
  [[nodiscard]] Rates pcie(int generation, int lanes) const;
  /// Throws Error (usage) with a suggestion.
  [[nodiscard]] const Rates& socket(const std::string& name) const;
};

}  // namespace rehearse
