#pragma once
// Several answers side by side, and where their difference comes from.

#include <string>
#include <vector>

#include "core/report/results/step_report.hpp"

namespace rehearse {

inline constexpr const char* kComparisonSchema = "rehearse/comparison/v1";

/// One column. Of a plan that does not fit, only `name`, `plan` and the two sizes mean anything.
struct ComparedStep {
  std::string name;  ///< As it was asked for: a file, with the keys changed in it.
  PlanSummary plan;  ///< `model` is empty where it came from a stored result, which does not say.
  bool fits = true;
  Bytes needed;  ///< Memory, of the stage nearest to its capacity.
  Bytes capacity;
  StepMetrics metrics;                 ///< With the known bias of such predictions applied, as is the breakdown.
  Breakdown breakdown;                 ///< Of the slowest rank; adds up to the step time.
  Seconds begin;                       ///< Of the step, on the trace's clock.
  Seconds modelled;                    ///< The step time without the bias: what the trace shows.
  std::shared_ptr<const Trace> trace;  ///< For the picture; may be null.
  std::vector<GanttRow> rows;
  PredictionRange range{};  ///< Of the step time; no rows where it came from a stored result.
};

/// Reads what `simulate` or `estimate` printed as JSON (rehearse/result/v1). Throws Error (usage) with the place of
/// what is missing.
[[nodiscard]] ComparedStep read_result(const std::string& json, const std::string& origin);

/// "A", "B", ..., "Z", "#27", ...: what the i-th column is called.
[[nodiscard]] std::string letter_of(std::size_t i);

/// Seconds per step that `b` takes more than `a`, by category. They add up to the difference of the two breakdowns'
/// totals.
[[nodiscard]] Breakdown difference(const Breakdown& a, const Breakdown& b);

/// At least two steps. The first is what the others are held against; plans that do not fit are shown without times.
[[nodiscard]] Document comparison_document(const std::vector<ComparedStep>& steps);

}  // namespace rehearse
