#pragma once
// How GPUs, NICs and the NVSwitch of a system reach each other: links, GB/s and class of every path, after NCCL has
// given up the direct ones it does not use. Facts: graph/paths.cc of NCCL 2.28.9.
//
//   GPU to GPU beyond one PCIe root (or machines without peer-to-peer): through the CPU's memory. AMD hosts with at
//   most two
//              GPUs in the group go direct over any distance.
//   GPU to NIC another GPU relays over NVLink where it is nearer (PXN, sending only); C2C to a CPU's NIC counts as
//   near;
//              beyond one PCIe root, or without GPUDirect RDMA, through the CPU's memory.
//   Pairs that reach their NICs faster than each other are cut: NCCL sends between them through the network.

#include <vector>

#include "core/collective/nccl/nccl_system.hpp"

namespace rehearse::nccl {

/// Rate, in GB/s, of a vertex to itself: no other is as fast.
inline constexpr float kLocalRate = 5000;

struct Path {
  std::vector<int> links;
  float rate = 0;
  PathClass kind = PathClass::disconnected;
};

/// The NICs that a GPU calls local, and over how many of them one GPU spreads its channels.
struct LocalNets {
  std::vector<int> nets;  ///< Indices among the network ports, in order.
  int per_gpu = 0;
};

class Paths {
 public:
  explicit Paths(const System& system);

  /// Between vertices; `to` is a GPU, CPU, network port or NVSwitch.
  [[nodiscard]] const Path& between(int from, int to) const { return table_[std::size_t(to)][std::size_t(from)]; }

  // GPUs and nets below are indices among their kind.
  [[nodiscard]] const Path& gpu_to_gpu(int a, int b) const { return between(gpu(a), gpu(b)); }
  [[nodiscard]] const Path& gpu_to_net(int g, int n) const { return between(gpu(g), net(n)); }
  [[nodiscard]] const Path& net_to_gpu(int n, int g) const { return between(net(n), gpu(g)); }

  [[nodiscard]] LocalNets local_nets(int g) const;
  /// The port that channel `c` of GPU `g` takes; -1 without any.
  [[nodiscard]] int net_for_channel(const LocalNets& local, int g, int c) const;
  /// GPUs with the best path from port `n`.
  [[nodiscard]] std::vector<int> local_gpus(int n) const;
  /// The GPU that uses port `n` first; -1 where none does.
  [[nodiscard]] int local_gpu(int n) const;

  /// GPUs that NCCL joins without the network, as sets of indices. More than one: NCCL treats each as a node of its
  /// own.
  [[nodiscard]] std::vector<std::vector<int>> domains() const;

 private:
  [[nodiscard]] int gpu(int g) const { return system_.at(NodeKind::gpu, g); }
  [[nodiscard]] int net(int n) const { return system_.at(NodeKind::net, n); }
  [[nodiscard]] Path& edit(int from, int to) { return table_[std::size_t(to)][std::size_t(from)]; }
  [[nodiscard]] std::vector<int> best(int from, NodeKind kind) const;
  [[nodiscard]] int local_cpu(int g) const;

  void reach(int base);
  void extend(int base, int from, int link, std::vector<int>& next);
  void route_over(int relay, int from, int to);
  void divert_distant_gpus();
  void cut_pairs_nearer_to_nics(int g);
  [[nodiscard]] bool peer_to_peer(int a, int b) const;
  void shorten_c2c();
  void relay_to_nets();
  [[nodiscard]] bool gpudirect(int g, int n) const;

  const System& system_;
  std::vector<std::vector<Path>> table_;  ///< [to][from]
};

}  // namespace rehearse::nccl
