#pragma once
// The buyer's answer as a document.

#include "core/plan/rank.hpp"
#include "core/report/formats/document.hpp"

namespace rehearse {

inline constexpr const char* kPlanResultSchema = "rehearse/plan_result/v1";

/// Tables of the candidates (size and time; money and energy; failures), what each misses, scaling curves, prices and
/// rates with their sources. JSON: `plan`, `question`, `candidates[{rank, machine, gpus, machines, strategy, label,
/// step_time_s, mfu, days, goodput, mtbf_hours, checkpoint_interval_s, cost_usd, cost_parts, energy_mwh,
/// meets_deadline, meets_budget, curve[], why_not}]` with `_p10` and `_p90` beside step time, days and cost, `why`, and
/// `interrupted`. Figures of a candidate that cannot run are null.
[[nodiscard]] Document plan_document(const PlanAnswer& answer, const std::string& program_version);

}  // namespace rehearse
