#pragma once
// What a pass does to memory, from the calls of which it consists.

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "core/program/liveness_curve.hpp"

namespace rehearse {

/// One call: an entry of a role.
struct MemoryCall {
  bool on_compute = false, has_tasks = true;
  double peak = 0, end = 0;  ///< Of all categories.
  std::shared_ptr<const BodyCurve> curve;

  MemoryCall() = default;
  MemoryCall(bool compute, bool tasks, BodyCurve of)
      : on_compute(compute),
        has_tasks(tasks),
        peak(of.peak),
        end(sum(of.at_end)),
        curve(std::make_shared<const BodyCurve>(std::move(of))) {}
};

/// With its curve, of the host's memory.
inline constexpr std::size_t kBytesOfMemoryCall = sizeof(MemoryCall) + sizeof(BodyCurve);

/// Bytes by MemorySpace, outside the device.
using Elsewhere = std::array<double, kMemorySpaces>;

/// Memory over one pass, relative to its start. Buffers of calls beside kernels, as of a message that left before, are
/// held until the pass's first kernels are done.
struct PassMemory {
  double until_kernels = 0, after = 0;  ///< Most held: up to the end of the first kernels, and from there on. Bytes.
  Amounts at_until{}, at_after{};       ///< By category at those moments.
  Amounts kept{};                       ///< At the end, such buffers of its own gone.
  Amounts leaving{};                    ///< These buffers.
  double kept_in_all = 0, leaving_in_all = 0;
  Elsewhere host_most{}, host_kept{};  ///< Outside the device: most held, and at the end.
};

/// Adds calls up as liveness.cpp does along a role.
class PassMemoryWalk {
 public:
  /// `times` equal calls in a row.
  void add(const MemoryCall& call, int times = 1);
  /// The same of calls that follow one another.
  void add(const std::vector<MemoryCall>& calls, int times = 1);
  [[nodiscard]] PassMemory result();

 private:
  void look(const MemoryCall& call, int before, const Amounts& each, double each_in_all);

  PassMemory out_;
  Amounts now_{};
  double now_in_all_ = 0;
  bool kernels_ = false;
};

}  // namespace rehearse
