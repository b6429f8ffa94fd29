#pragma once
// What a target's own code refuses when it starts, or takes for something else. A plan that breaks one of these rules
// is refused with its reason before anything is written. Private to core/export.

#include <string>
#include <vector>

#include "core/config/settings/strategy.hpp"
#include "core/export/export.hpp"

namespace rehearse::exporting {

/// One check of the software.
struct StartRule {
  bool (*broken)(const ExportInput& input);
  std::string what;    ///< What the software cannot do, as a phrase: "replicas beside tensor parallelism".
  std::string source;  ///< Where its code says so: file, and function or class.
};

/// Throws Error (usage) that names every rule broken, with its source. `software` is as in "torchtitan@0.2.2".
void refuse_what_cannot_start(const std::string& software, const std::vector<StartRule>& rules,
                              const ExportInput& input);

[[nodiscard]] inline const StrategySettings& plan(const ExportInput& input) { return input.scenario.strategy; }

[[nodiscard]] inline bool uses_fsdp(const ExportInput& input) { return plan(input).fsdp.enabled; }
[[nodiscard]] inline bool uses_zero(const ExportInput& input) {
  return !uses_fsdp(input) && plan(input).zero_stage > 0;
}
/// ZeRO within groups of replicas, not over all of them.
[[nodiscard]] inline bool uses_zero_in_groups(const ExportInput& input) {
  return uses_zero(input) && plan(input).dp_shard > 1 && plan(input).dp_replicate > 1;
}

/// The lowest compute capability among the GPUs of the plan, 90 for 9.0; 0 where a device has none.
[[nodiscard]] int least_capability(const ExportInput& input);

// The rules of each target.
[[nodiscard]] const std::vector<StartRule>& accelerate_start();
[[nodiscard]] const std::vector<StartRule>& megatron_start();
[[nodiscard]] const std::vector<StartRule>& torchtitan_start();
[[nodiscard]] const std::vector<StartRule>& torchtitan_python_start();
[[nodiscard]] const std::vector<StartRule>& deepspeed_start();

}  // namespace rehearse::exporting
