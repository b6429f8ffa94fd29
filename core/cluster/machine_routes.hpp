#pragma once
// Paths inside one kind of machine, computed once and shared by all its nodes.
//
// A path prefers what NCCL prefers (path types of graph/topo.h, best first): NVLink, directly or through NVSwitches;
// then PCIe switches only; then one host bridge; then the links between sockets. Inside a class the fewest hops win,
// then the widest narrowest link. GPUs and NICs never forward for others.

#include <span>
#include <vector>

#include "core/hardware/specs.hpp"

namespace rehearse {

class MachineRoutes {
 public:
  /// Directed links of the machine in the order of travel: 2i is link i from `a` to `b`, 2i+1 the way back.
  struct Path {
    std::span<const int> links;
    Seconds latency;
  };

  /// Throws Error (usage) when a GPU reaches another GPU, or a machine with NICs no NIC, by no path.
  explicit MachineRoutes(const MachineSpec& machine);

  /// Between two GPUs; through host memory where the machine has no peer-to-peer access. Empty for a == b.
  [[nodiscard]] Path between(int gpu_a, int gpu_b) const { return path(paths_[gpu_a * gpus_ + gpu_b]); }
  /// From a GPU to its NIC and from that NIC to the GPU; through host memory without GPUDirect RDMA.
  [[nodiscard]] Path to_nic(int gpu) const { return path(to_nic_[gpu]); }
  [[nodiscard]] Path from_nic(int gpu) const { return path(from_nic_[gpu]); }
  /// The nearest NIC. Equally near NICs are dealt out in turn, so that each GPU has its own where there are enough. -1
  /// without NICs.
  [[nodiscard]] int nic_of(int gpu) const { return nic_of_[gpu]; }
  /// The GPU over NVLink from `gpu` that sends through `nic` (PXN); -1 where there is none or `gpu` itself does.
  [[nodiscard]] int relay(int gpu, int nic) const { return nic < nics_ ? relay_[gpu * nics_ + nic] : -1; }

 private:
  struct Slice {
    int first = 0, count = 0;
    Seconds latency;
  };
  [[nodiscard]] Path path(const Slice& s) const { return {std::span(pool_).subspan(s.first, s.count), s.latency}; }
  Slice store(const MachineSpec& machine, const std::vector<int>& links);
  void choose_relays(const MachineSpec& machine, const std::vector<bool>& by_nvlink);

  int gpus_;
  int nics_;
  std::vector<int> pool_;
  std::vector<Slice> paths_, to_nic_, from_nic_;
  std::vector<int> nic_of_, relay_;
};

}  // namespace rehearse
