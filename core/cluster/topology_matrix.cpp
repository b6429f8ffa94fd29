#include "core/cluster/topology_matrix.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/cluster/machine_search.hpp"

namespace rehearse {
namespace {

using TopologyMatrixKind = MachineSpec::VertexKind;
using LinkKind = MachineSpec::LinkKind;

/// All paths from the devices of a machine's first tray.
class Paths {
 public:
  explicit Paths(const MachineSpec& machine) : machine_(machine) {}

  [[nodiscard]] std::vector<int> devices(TopologyMatrixKind kind, int count) const {
    std::vector<int> found;
    for (int v = 0; v < static_cast<int>(machine_.vertices.size()) && static_cast<int>(found.size()) < count; ++v)
      if (nth(machine_.vertices, v).kind == kind) found.push_back(v);
    return found;
  }

  [[nodiscard]] TopologyMatrix::Cell between(const std::vector<std::optional<FoundPath>>& nvlink,
                                             const std::vector<std::optional<FoundPath>>& host, int a, int b) const {
    if (a == b) return {PathType::self, 0};
    if (nth(nvlink, b)) return {PathType::nvlink, nvlinks(a, b)};
    if (nth(host, b)) return {host_type(*nth(host, b)), 0};
    return {};
  }

  /// The CPU nearest to a device; -1 where it reaches none.
  [[nodiscard]] int nearest_cpu(const std::vector<std::optional<FoundPath>>& host) const {
    int best = -1;
    for (int v = 0; v < static_cast<int>(host.size()); ++v) {
      if (nth(machine_.vertices, v).kind != TopologyMatrixKind::cpu || !nth(host, v)) continue;
      if (best < 0 || nth(host, v)->cost < nth(host, best)->cost) best = v;
    }
    return best;
  }

 private:
  /// NVLinks joining two GPUs; through NVSwitches, what the GPU with fewer has to them.
  [[nodiscard]] int nvlinks(int a, int b) const {
    int direct = 0, from_a = 0, from_b = 0;
    for (const auto& link : machine_.links) {
      if (link.kind != LinkKind::nvlink) continue;
      bool at_a = link.a == a || link.b == a, at_b = link.a == b || link.b == b;
      if (at_a && at_b) direct += link.count;
      int other = link.a == a || link.a == b ? link.b : link.a;
      if (nth(machine_.vertices, other).kind != TopologyMatrixKind::nvswitch) continue;
      if (at_a) from_a += link.count;
      if (at_b) from_b += link.count;
    }
    return direct > 0 ? direct : std::min(from_a, from_b);
  }

  [[nodiscard]] PathType host_type(const FoundPath& path) const {
    if (path.cost.sockets > 0) return PathType::sys;
    if (path.cost.hosts == 0) return path.links.size() <= 2 ? PathType::pix : PathType::pxb;
    std::vector<int> bridges;  // Of the links into and out of the CPU.
    for (int directed : path.links) {
      const auto& link = nth(machine_.links, directed / 2);
      for (int end : {link.a, link.b})
        if (nth(machine_.vertices, end).kind == TopologyMatrixKind::cpu) bridges.push_back(link.host_bridge);
    }
    bool one = bridges.size() == 2 && bridges[0] >= 0 && bridges[0] == bridges[1];
    return one ? PathType::phb : PathType::node;
  }

  const MachineSpec& machine_;
};

}  // namespace

std::string text_of(PathType type, int nvlinks) {
  switch (type) {
    case PathType::self: return "X";
    case PathType::nvlink: return fmt::format("NV{}", nvlinks);
    case PathType::pix: return "PIX";
    case PathType::pxb: return "PXB";
    case PathType::phb: return "PHB";
    case PathType::node: return "NODE";
    case PathType::sys: return "SYS";
    case PathType::none: return "-";
  }
  return "";
}

const std::vector<PathLegend>& path_legend() {
  static const std::vector<PathLegend> legend{
      {"X", "Self"},
      {"SYS", "Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)"},
      {"NODE", "Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node"},
      {"PHB", "Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)"},
      {"PXB", "Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)"},
      {"PIX", "Connection traversing at most a single PCIe bridge"},
      {"NV#", "Connection traversing a bonded set of # NVLinks"}};
  return legend;
}

TopologyMatrix topology_matrix(const MachineSpec& machine) {
  Paths paths(machine);
  std::vector<int> devices = paths.devices(TopologyMatrixKind::gpu, machine.gpus / machine.trays);
  const std::vector<int> nics = paths.devices(TopologyMatrixKind::nic, machine.nics / machine.trays);
  devices.insert(devices.end(), nics.begin(), nics.end());

  TopologyMatrix matrix;
  for (int a : devices) {
    const auto& vertex = nth(machine.vertices, a);
    const auto host = search_paths(machine, a, Medium::host);
    const auto nvlink = search_paths(machine, a, Medium::nvlink);
    TopologyMatrix::Device device{vertex.name, vertex.device, vertex.kind == TopologyMatrixKind::nic, {}, -1};
    if (int cpu = paths.nearest_cpu(host); cpu >= 0 && !device.is_nic) {
      device.cores = nth(machine.vertices, cpu).cores;
      device.numa = nth(machine.vertices, cpu).numa;
    }
    matrix.devices.push_back(std::move(device));
    auto& row = matrix.cells.emplace_back();
    for (int b : devices) row.push_back(paths.between(nvlink, host, a, b));
  }
  return matrix;
}

}  // namespace rehearse
