#pragma once
// What predictions would be without a source: each source's rows against constants that its steps had no part in.

#include <string>
#include <vector>

#include "core/scoreboard/scoreboard.hpp"

namespace rehearse {

/// Rows of one source, predicted with all constants and without those fitted on its steps
/// (topologies/calibration/steps.json). Constants of kernel benchmarks stay: a machine's kernels can be measured
/// without running a training step on it.
struct LeftOut {
  std::string source;   ///< As steps.json names it.
  int constants = 0;    ///< Withdrawn.
  int rows_fitted = 0;  ///< Rows that they were fitted on: the others of the source were never looked at.
  /// All its rows; those that were not fitted; all again, without the constants.
  ErrorStatistics fitted, unseen, without;
};

/// One entry for every source that a constant of steps.json was fitted on, then all rows of the other sources by kind
/// of model, which nothing is withdrawn for, and "all": each row without what its own source gave; none where no source
/// gave any. `rows` are those `board` was made from. Throws as score() does.
[[nodiscard]] std::vector<LeftOut> leave_out(const Scoreboard& board, const std::vector<Measurement>& rows,
                                             const PredictorPaths& paths, const ScoreOptions& options = {});

}  // namespace rehearse
