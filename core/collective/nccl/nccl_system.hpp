#pragma once
// A machine as NCCL's topology code holds it: a graph of GPUs, PCIe switches, one NVSwitch, CPUs, NIC cards and network
// ports.
//
// Order matters: NCCL walks vertices and links in the order in which it found them, and its search stops after a number
// of steps. PCIe trees are walked depth first, at every level by the lowest GPU number below, then by the lowest NIC
// number; that is the order of PCI bus numbers where GPUs and NICs are numbered by them, as NVIDIA's and the RDMA
// drivers do. Names never count. Facts: graph/topo.cc of NCCL 2.28.9.

#include <array>
#include <span>
#include <vector>

#include "core/base/index.hpp"
#include "core/collective/nccl/nccl_tuning.hpp"
#include "core/hardware/specs.hpp"

namespace rehearse::nccl {

enum class NodeKind { gpu, pci, nvs, cpu, nic, net };
inline constexpr int kNodeKinds = 6;

struct SystemNode {
  NodeKind kind;
  int host = 0;            ///< Hosts are joined by NVLink alone (NVL72); one for every other machine.
  int number = 0;          ///< GPU: position among all GPUs of its host, in or out of the group.
  float rate = 0;          ///< Network port: GB/s.
  std::vector<int> links;  ///< Outgoing, NVLink first, then down the PCIe tree, then up, then other sockets.

  bool operator==(const SystemNode&) const = default;
};

/// One direction. GB/s as NCCL's search takes them; single precision, as there: rounding decides ties.
struct SystemLink {
  int from, to;
  PathClass kind;  ///< nvlink, c2c, pix (any PCIe link), sys (between sockets), net.
  float rate;
  int reverse = -1;

  bool operator==(const SystemLink&) const = default;
};

/// The vertices that one communicator sees: `gpus` of the machine, and all its CPUs, switches and NICs.
struct System {
  std::vector<SystemNode> nodes;
  std::vector<SystemLink> links;
  std::array<std::vector<int>, kNodeKinds> by_kind;  ///< Vertex numbers.
  std::vector<int> members;  ///< For each GPU vertex in order, its position in the list that `system_of` was given.
  int hosts = 1;
  int compute_capability = 0;
  bool intel = false, amd = false, power = false;
  bool peer_to_peer = true, gpudirect = true;

  [[nodiscard]] const std::vector<int>& all(NodeKind k) const { return nth(by_kind, k); }
  [[nodiscard]] int count(NodeKind k) const { return int(all(k).size()); }
  [[nodiscard]] int at(NodeKind k, int i) const { return all(k)[std::size_t(i)]; }
  [[nodiscard]] const SystemNode& node(int v) const { return nodes[std::size_t(v)]; }
  [[nodiscard]] const SystemLink& link(int l) const { return links[std::size_t(l)]; }
  bool operator==(const System&) const = default;
};

/// `gpus`: local indices. A vertex that no PCIe or C2C link joins to a CPU keeps its NVLinks only.
[[nodiscard]] System system_of(const MachineSpec& machine, const GpuSpec& gpu, std::span<const int> gpus);

}  // namespace rehearse::nccl
