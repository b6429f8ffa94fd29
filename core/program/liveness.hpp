#pragma once
// Peak memory from the Program itself: walk a role's entries in issue order, add what is allocated, subtract what is
// freed.
//
// Tasks and entries whose predicate is zero do nothing. A release after an event counts when the entry that records the
// event has been passed. Ranks of a role that hold unequal slices, or of which only some run a task, are walked one of
// each kind.

#include <array>
#include <string>
#include <vector>

#include "core/base/units.hpp"
#include "core/program/program.hpp"

namespace rehearse {

using CategoryBytes = std::array<Bytes, kMemoryCategories>;

/// Peak of one role on the device of its worst rank. `by_category` is the state at the peak and adds up to `peak`.
struct RoleMemory {
  int role = 0;
  Bytes peak;
  CategoryBytes by_category;
  std::array<Bytes, kMemorySpaces> peak_by_space{};  ///< Indexed by MemorySpace; `peak` is the device's.
  int rank = 0;                                      ///< The role's worst rank, which is the one described.
  Bytes cached{0};                                   ///< Freed blocks that an allocator keeps; not part of `peak`.
  /// "layer.backward, layer 12, microbatch 3, at attention.probabilities": where the peak stands.
  std::string peak_at;
};

/// Memory of every role: that of its worst rank. Time grows with the kinds of ranks, not with ranks. `workspace` and
/// `framework` are fixed per process and given by the caller.
[[nodiscard]] std::vector<RoleMemory> peak_memory(const Program& program, Bytes workspace, Bytes framework);

/// Device memory at one call of a body.
struct MemoryPoint {
  std::int32_t entry = 0;  ///< Index into Role::step.
  std::int32_t body = 0;
  int layer = 0, chunk = 0, microbatch = 0;
  StreamId stream = 0;
  CategoryBytes by_category{};  ///< At the call's own peak.
  CategoryBytes after{};        ///< When it has ended and given back what it releases.
};
/// A role's step on its worst rank.
struct MemoryCurve {
  int role = 0, rank = 0;
  std::vector<MemoryPoint> points;
};

/// One rank's step, in issue order: a point per call that is played. The largest sum is the rank's peak, where a call
/// is above what the step begins with.
[[nodiscard]] std::vector<MemoryPoint> memory_course(const Program& program, int rank, Bytes workspace,
                                                     Bytes framework);
/// The same of every role.
[[nodiscard]] std::vector<MemoryCurve> memory_over_time(const Program& program, Bytes workspace, Bytes framework);

}  // namespace rehearse
