#pragma once
// Peak memory per pipeline stage against what the devices have.

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/cluster/cluster.hpp"
#include "core/cost/memory_rule.hpp"
#include "core/report/document.hpp"

namespace rehearse {

/// One kind of rank. `needed` is the rule's: what the device must have, with the allocator's reserve and the framework.
struct StageMemory {
  int stage = 0;      ///< Pipeline coordinate.
  RoleMemory memory;  ///< Of the stage's worst rank.
  Bytes needed;
  Bytes capacity;
  Bytes host_needed{0};    ///< Of all ranks on the node of that rank: offloaded state and staging buffers.
  Bytes host_capacity{0};  ///< Of that node; 0 where its machine states none, and nothing is held against it.
  [[nodiscard]] bool host_fits() const { return host_capacity == Bytes{0} || host_needed <= host_capacity; }
  [[nodiscard]] bool fits() const { return needed <= capacity && host_fits(); }
};

/// Fewest changes of the scenario that were found to make it fit, as `--set` takes them.
struct Suggestion {
  std::vector<std::string> changes;  ///< "strategy.recompute=selective"
  Bytes needed;                      ///< Of the worst stage, changed so.
};

struct MemoryReport {
  MemoryRule rule;
  std::vector<StageMemory> stages;
  std::optional<Suggestion> suggestion;  ///< Only where it does not fit and a change was found.
  [[nodiscard]] bool fits() const;
  /// The stage nearest to its capacity, or furthest over it. There is at least one.
  [[nodiscard]] const StageMemory& tightest() const;
};

/// One entry per role, in order.
[[nodiscard]] MemoryReport memory_report(const Program& program, const Cluster& cluster, const MemoryRule& rule);

/// Table of stages and categories, where the tightest peak stands, the rule, and the suggestion.
[[nodiscard]] std::vector<DocumentBlock> memory_blocks(const MemoryReport& report);
/// The array `memory` of JSON results: {stage, rank, peak_bytes, needed_bytes, capacity_bytes, peak_at, by_category{}}.
[[nodiscard]] nlohmann::ordered_json memory_json(const MemoryReport& report);
/// {changes, needed_bytes} or null.
[[nodiscard]] nlohmann::ordered_json suggestion_json(const MemoryReport& report);
/// One record per stage.
[[nodiscard]] Table memory_records(const MemoryReport& report);

}  // namespace rehearse
