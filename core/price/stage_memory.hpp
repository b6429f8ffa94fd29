#pragma once
// Peak memory per pipeline stage against what the devices have.

#include <optional>
#include <string>
#include <vector>

#include "core/cluster/cluster.hpp"
#include "core/price/memory_rule.hpp"

namespace rehearse {

/// Share of a device's memory that should be left: where less is, errors of predicted peaks can decide.
inline constexpr double kLeastHeadroom = 0.03;

/// One kind of rank. `allocated`, `reserved` and `needed` are the rule's.
struct StageMemory {
  int stage = 0;      ///< Pipeline coordinate.
  RoleMemory memory;  ///< Of the stage's worst rank.
  Bytes allocated, reserved, needed;
  Bytes capacity;          ///< What processes can have of the device.
  Bytes host_needed{0};    ///< Of all ranks on the node of that rank: offloaded state and staging buffers.
  Bytes host_capacity{0};  ///< Of that node; 0 where its machine states none, and nothing is held against it.
  /// What one rank keeps in the memory of its node, pinned or not.
  [[nodiscard]] Bytes host_bytes() const;
  [[nodiscard]] bool host_fits() const { return host_capacity == Bytes{0} || host_needed <= host_capacity; }
  [[nodiscard]] bool fits() const { return needed <= capacity && host_fits(); }
  /// It fits, and so nearly that the rule's own error can decide.
  [[nodiscard]] bool barely() const { return fits() && needed > capacity * (1 - kLeastHeadroom); }
};

/// Of all single changes of the scenario that make it fit (of pairs of those that save most, where none does) that with
/// the shortest step, as `--set` takes them.
struct Suggestion {
  std::vector<std::string> changes;  ///< "strategy.recompute=selective"
  Bytes needed;                      ///< Of the worst stage, changed so.
  Seconds step_time;                 ///< In closed form.
};

/// How far predicted peaks may be off, as factors on what is allocated: of measured peaks of this kind from sources
/// that nobody has seen, a tenth lie below `p10` times their prediction and a tenth above `p90` times.
struct PeakRange {
  double p10 = 1, p90 = 1;
  std::string rests_on;  ///< "26 rows of 3 sources, dense models on hopper".
  int rows = 0, sources = 0;

  struct Ends {
    Bytes low, high;
  };
  /// What a device needs at either end, where `needed` is predicted and `allocated` of that are tensors and workspace.
  [[nodiscard]] Ends ends(Bytes needed, Bytes allocated, const MemoryRule& rule = {}) const {
    const Bytes reserved = allocated * rule.reserved_over_allocated;
    return {needed + reserved * (p10 - 1), needed + reserved * (p90 - 1)};
  }
};

struct MemoryReport {
  MemoryRule rule;
  std::vector<StageMemory> stages;
  std::optional<Suggestion> suggestion;  ///< Only where it does not fit and a change was found.
  std::optional<PeakRange> range = {};   ///< Where it is known.
  [[nodiscard]] bool fits() const;
  /// The stage nearest to its capacity, or furthest over it. There is at least one.
  [[nodiscard]] const StageMemory& tightest() const;
};

/// One entry per role, in order.
[[nodiscard]] MemoryReport memory_report(const Program& program, const Cluster& cluster, const MemoryRule& rule);

}  // namespace rehearse
