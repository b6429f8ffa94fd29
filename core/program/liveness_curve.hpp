#pragma once
// What one call of a body does to memory. liveness.cpp adds such calls up along a role; the quick estimator along a
// pass.

#include <array>
#include <vector>

#include "core/program/program.hpp"

namespace rehearse {

/// Bytes by MemoryCategory.
using Amounts = std::array<double, kMemoryCategories>;

[[nodiscard]] inline double sum(const Amounts& a) {
  double total = 0;
  for (const double x : a) total += x;
  return total;
}

inline void add(Amounts& to, const Amounts& from) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
}

inline void subtract(Amounts& from, const Amounts& what) {
  for (std::size_t i = 0; i < from.size(); ++i) from[i] -= what[i];
}

/// Storage that goes when an event has happened.
struct LateRelease {
  EventId event;
  std::size_t category;
  double bytes;
};

/// What one call of a body does to device memory, relative to its start. `at_peak` is the state when most is held,
/// `peak` in all, during the call of task `peak_task`; `at_end` what it leaves behind.
struct BodyCurve {
  std::vector<LateRelease> later;
  Amounts at_peak{};
  Amounts at_end{};
  std::array<double, kMemorySpaces> host_up{}, host_down{};  ///< Of bound tensors outside the device, by memory space.
  Amounts beside{};  ///< Communication buffers it gives back: in use until the compute issued beside it is done.
  double peak = 0;
  int peak_task = -1;
};

/// The curve of a call of `body` at `at`, its bound formals being `bindings`.
[[nodiscard]] BodyCurve body_curve(const Program& program, const ExprContext& at, const Body& body,
                                   const BindingSet& bindings);

}  // namespace rehearse
