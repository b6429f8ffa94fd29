#pragma once
// The scoreboard as a document.

#include "core/report/formats/document.hpp"
#include "core/scoreboard/agreement.hpp"
#include "core/scoreboard/fitted_classes.hpp"
#include "core/scoreboard/kernel_rows.hpp"
#include "core/scoreboard/left_out.hpp"
#include "core/scoreboard/ranges/range_judgement.hpp"
#include "core/scoreboard/scoreboard.hpp"

namespace rehearse {

inline constexpr const char* kScoreboardSchema = "rehearse/scoreboard/v1";

/// What may stand beside the rows of training steps.
struct ScoreboardParts {
  bool rows = true;               ///< false: error figures by source, generation and model only.
  KernelBoard kernels;            ///< Kernels and collectives; may be empty.
  std::vector<LeftOut> left_out;  ///< May be empty.
  std::vector<FittedClass> fitted;
  Agreement agreement;       ///< May be empty.
  RangeJudgement judgement;  ///< May be empty.
};

/// Rows, error figures by source, GPU, generation, strategy, model and release, and the rows skipped, counted by
/// reason. JSON: `rows` with id, quantity, unit, predicted, measured, error, skipped, and
/// the likely range as p10, p90, middle and inside; `summary` with predicted_rows,
/// skipped_rows, median_abs_error, mean_abs_error, p90_abs_error, worst_abs_error, bias. Errors are predicted /
/// measured - 1 of seconds per step.
[[nodiscard]] Document scoreboard_document(const Scoreboard& board, const ScoreboardParts& parts = {});

/// One row: every field of its scenario with where it is from, the prediction and where its time goes.
[[nodiscard]] Document row_document(const ScoredRow& row);

}  // namespace rehearse
