#pragma once
// From the bytes a Program holds to the bytes a device must have. One rule for every report, search, suggestion and for
// the scoreboard. Three figures, each of which a tool shows:
//
//   allocated   what tensors and library workspaces hold at their peak     torch.cuda.max_memory_allocated
//   reserved    what the allocator took from the driver for them           torch.cuda.max_memory_reserved
//   needed      with context and communicators, which no allocator counts  nvidia-smi

#include "core/cluster/cluster.hpp"
#include "core/program/liveness.hpp"

namespace rehearse {

struct MemoryRule {
  /// What a caching allocator reserves over what is allocated. Measured: 1.03 to 1.08 on the B200 rows of SimuMax's
  /// published runs; the middle.
  double reserved_over_allocated = 1.055;
  /// CUDA context, kernels and library handles. An estimate: PyTorch's errors list other processes on an H100 with 522
  /// MiB each, which hold no tensors.
  Bytes context{0.55e9};
  /// Buffers of one NCCL communicator, an estimate: 12 MiB for each connection (10 MiB on one side and 2 on the other,
  /// NVIDIA/nccl issue 1685), a ring's and two of a tree's in each channel, and 24 channels over NVLink. Over PCIe 4.
  Bytes communicator{24 * 3 * 12.0 * 1024 * 1024};
  /// Scratch of the matrix-product library, which the allocator does count: 32 MiB is NVIDIA's advice for cuBLAS on
  /// Hopper (cuBLAS documentation, cublasSetWorkspace); older chips get by with 4 MiB.
  Bytes workspace{32.0 * 1024 * 1024};

  MemoryRule() = default;
  /// With the channels that the cluster's wires give.
  explicit MemoryRule(const Cluster& cluster);

  [[nodiscard]] Bytes allocated(const RoleMemory& memory) const;
  [[nodiscard]] Bytes reserved(const RoleMemory& memory) const;
  /// What the device must have. `memory` comes from peaks() below.
  [[nodiscard]] Bytes needed(const RoleMemory& memory) const;
  [[nodiscard]] bool fits(const RoleMemory& memory, Bytes capacity) const { return needed(memory) <= capacity; }

  /// What no allocator counts on `rank`: context, and a communicator for each group of several ranks that it is in.
  [[nodiscard]] Bytes outside(const Program& program, int rank) const;
  /// peak_memory() with this rule's amounts: category `framework` is outside(), which `peak` includes; and `cached`.
  [[nodiscard]] std::vector<RoleMemory> peaks(const Program& program) const;
};

/// Blocks that a caching allocator keeps after they were freed, because nothing that comes later fits into them: those
/// of half-precision logits, where every fp32 tensor of PyTorch's loss is larger and takes a block of its own (PyTorch
/// documentation, CUDA semantics, memory management). On `rank`, which is one of `role`.
[[nodiscard]] Bytes cached_blocks(const Program& program, const Role& role, int rank);

}  // namespace rehearse
