#pragma once
// The scoreboard as a document.

#include "core/report/document.hpp"
#include "core/scoreboard/scoreboard.hpp"

namespace rehearse {

inline constexpr const char* kScoreboardSchema = "rehearse/scoreboard/v1";

/// Rows, error figures by source, GPU, strategy and model, and the rows skipped, counted by reason. JSON: `rows` with id, quantity, unit, predicted,
/// measured, error, skipped; `summary` with predicted_rows, skipped_rows, median_abs_error, mean_abs_error, p90_abs_error, worst_abs_error, bias. Errors are
/// predicted / measured - 1 of seconds per step.
[[nodiscard]] Document scoreboard_document(const Scoreboard& board);

/// One row: every field of its scenario with where it is from, the prediction and where its time goes.
[[nodiscard]] Document row_document(const ScoredRow& row);

}  // namespace rehearse
