#pragma once
// Rows of published measurements, predicted and compared.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/scoreboard/errors.hpp"
#include "core/scoreboard/predict.hpp"
#include "core/scoreboard/prediction_range.hpp"

namespace rehearse {

/// One row: predicted, or skipped for a reason.
struct ScoredRow {
  MappedRow row;
  bool predicted = false;
  Prediction prediction;
  double error = 0;                    ///< Predicted over measured step time, less one.
  std::optional<double> memory_error;  ///< The same of peak memory, where it was measured.
  PredictionRange range;               ///< Of the step time, where give_ranges() was called.
  PredictionRange memory_range;        ///< The same of peak memory; no rows: nothing is known.
  /// Whether what was measured lies in the range.
  [[nodiscard]] bool inside() const {
    const double factor = 1 / (1 + error);
    return range.p10 <= factor && factor <= range.p90;
  }
  /// The same of peak memory, where it was measured and its range is known.
  [[nodiscard]] bool memory_inside() const {
    const double factor = 1 / (1 + memory_error.value_or(0));
    return memory_error && memory_range.rows > 0 && memory_range.p10 <= factor && factor <= memory_range.p90;
  }
  /// Whether it counts in error figures: predicted, and every field that matters is stated or has a default.
  [[nodiscard]] bool counts() const { return predicted && row.guessed.empty(); }
};

/// Error figures of rows that have something in common.
struct ScoreGroup {
  /// "source", "GPU", "generation", "strategy", "model", "release"; "newest": rows of the newest release of their
  /// configuration.
  std::string by;
  std::string name;
  ErrorStatistics time;
  ErrorStatistics memory;
  double inside = 0;  ///< Share of the step times that lie in their range, where give_ranges() was called.
  std::optional<double> memory_inside = {};  ///< The same of peak memory, where a range of it is known.
};

struct Scoreboard {
  std::vector<ScoredRow> rows;   ///< In the order of the files.
  ErrorStatistics time, memory;  ///< Of rows that count.
  std::vector<ScoreGroup> groups;
  std::map<std::string, int> skipped;  ///< By reason.
  int listed = 0;                      ///< Predicted, but counted in no error figure.
  /// Share of the step times that lie in their range: of all rows, and of sources that weigh the same each.
  double inside = 0, inside_of_sources = 0;
  [[nodiscard]] int predicted() const;
};

struct ScoreOptions {
  std::string backend = "estimate";
  std::string without{};  ///< CalibrationOptions::without.
  /// Threads; 0: as many as the machine has. Back ends other than the closed form run one at a time.
  int workers = 0;
  std::function<void(int done, int all)> progress{};  ///< Called by any worker, one at a time.
};

/// Throws Error (usage) where the catalogue or the software defaults cannot be read; what single rows get wrong becomes
/// their reason to be skipped. The result does not depend on the number of workers.
[[nodiscard]] Scoreboard score(const std::vector<Measurement>& rows, const PredictorPaths& paths,
                               const ScoreOptions& options = {});

/// Gives every predicted row its likely range, and counts the rows inside.
void give_ranges(Scoreboard& board, const PredictionRanges& ranges);

/// The citation's first words: what groups by source are called.
[[nodiscard]] std::string short_source(const MappedRow& row);

}  // namespace rehearse
