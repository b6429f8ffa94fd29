#pragma once
// Clusters with round figures for tests of clocks: NVLink 100 GB/s per GPU and direction, NICs and PCIe as told.

#include <map>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "core/cluster/cluster.hpp"

namespace rehearse::testing {

inline constexpr double kNvlink = 100e9;  ///< Bytes/s, one GPU to the switch.

struct SmallMachine {
  int gpus = 8;
  int nics = 8;
  double nic_rate = 10e9;  ///< Bytes/s; PCIe is ten times as fast, so that the NIC is the bottleneck.
};

inline MachineSpec machine_spec(const SmallMachine& m) {
  using K = MachineSpec::VertexKind;
  using L = MachineSpec::LinkKind;
  MachineSpec spec;
  spec.id = spec.name = "small";
  spec.gpu = "gpu";
  spec.gpus = m.gpus;
  spec.nic = {"nic", BytesPerSecond{m.nic_rate}};
  spec.nics = m.nics;
  auto vertex = [&](K kind, const char* name, int index) {
    spec.vertices.push_back({kind, name + std::to_string(index), index});
    return static_cast<int>(spec.vertices.size()) - 1;
  };
  auto link = [&](int a, int b, L kind, double rate) {
    spec.links.push_back({a, b, kind, 1, BytesPerSecond{rate}, BytesPerSecond{rate}, Seconds{0}});
  };
  const int nvswitch = vertex(K::nvswitch, "NVSwitch", 0);
  const int cpu = vertex(K::cpu, "CPU", 0);
  const int per_nic = m.gpus / m.nics;
  for (int n = 0; n < m.nics; ++n) {
    const int plx = vertex(K::pcie_switch, "PLX", n), nic = vertex(K::nic, "NIC", n);
    link(cpu, plx, L::pcie, 10 * m.nic_rate);
    link(nic, plx, L::pcie, 10 * m.nic_rate);
    for (int g = n * per_nic; g < (n + 1) * per_nic; ++g) {
      const int gpu = vertex(K::gpu, "GPU", g);
      link(gpu, plx, L::pcie, 10 * m.nic_rate);
      link(gpu, nvswitch, L::nvlink, kNvlink);
    }
  }
  return spec;
}

inline Cluster small_cluster(int nodes, SmallMachine m = {}, std::string network = "single_switch",
                             std::map<std::string, double> parameters = {}) {
  auto machine = std::make_shared<const MachineSpec>(machine_spec(m));
  auto gpu = std::make_shared<GpuSpec>();
  gpu->id = gpu->name = "gpu";
  NetworkSpec spec;
  spec.id = spec.name = spec.kind = std::move(network);
  spec.parameters = std::move(parameters);
  spec.switch_latency = Seconds{1e-6};
  spec.nic_latency = Seconds{2e-6};
  return Cluster("small", {{std::move(machine), std::move(gpu), nodes}}, std::move(spec));
}

}  // namespace rehearse::testing
