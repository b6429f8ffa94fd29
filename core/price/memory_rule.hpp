#pragma once
// From the bytes a Program holds to the bytes a device must have. One rule for every report, search and suggestion.

#include "core/program/liveness.hpp"

namespace rehearse {

/// needed = allocated * allocator_factor + framework, where allocated is the peak of what tensors and `workspace` hold.
struct MemoryRule {
  /// What a caching allocator reserves over what is allocated. Measured: reserved / allocated is 1.03 to 1.08 on the
  /// B200 rows of SimuMax's published runs; the upper end, so that "fits" is a promise.
  double allocator_factor = 1.08;
  /// CUDA context, communicator buffers and library handles, which no allocator counts. Estimate: 1.5 to 3 GB on A100
  /// and H100.
  Bytes framework{3e9};
  /// Scratch of the matrix-product library, which the allocator does count: 32 MiB is NVIDIA's advice for cuBLAS on
  /// Hopper (cuBLAS documentation, cublasSetWorkspace); older chips get by with 4 MiB.
  Bytes workspace{32.0 * 1024 * 1024};

  /// Bytes that the peak of one role needs on its device. `memory` comes from peaks() below.
  [[nodiscard]] Bytes needed(const RoleMemory& memory) const;
  [[nodiscard]] bool fits(const RoleMemory& memory, Bytes capacity) const { return needed(memory) <= capacity; }
  /// peak_memory() with this rule's fixed amounts: category `framework` is the rule's, and `peak` includes it.
  [[nodiscard]] std::vector<RoleMemory> peaks(const Program& program) const;
};

}  // namespace rehearse
