#pragma once
// How good ranges are for sources that they weren't fitted on: each source is left out in turn, the others are fitted,
// and the range of each of its rows is held against what was measured.

#include <map>
#include <string>
#include <vector>

#include "core/scoreboard/ranges/error_groups.hpp"

namespace rehearse {

/// Means over sources, each weighing the same. Scores and widths are of logarithms: a width of 0.7 is a range whose
/// upper end is twice its lower one.
struct JudgedRanges {
  int sources = 0;
  double inside = 0;  ///< Share of the rows that lie in their range; kLikelyShare is wanted.
  double width = 0;
  double score = 0;  ///< Interval score (student.hpp): less is better.
  /// The same of one constant range for each kind of model: 10th to 90th percentile of the errors of the sources that
  /// are not left out, each weighing the same.
  double constant_inside = 0, constant_width = 0, constant_score = 0;
};

struct JudgedSource {
  std::string source, model;
  bool first = false;
  JudgedRanges ranges;  ///< Of this source alone.
};

struct RangeJudgement {
  std::vector<JudgedSource> sources;  ///< In the order of their names.
  /// Means over all sources, and by kind of model: "all", "dense", "first errors", "first errors, dense", ...
  std::map<std::string, JudgedRanges> groups;
};

/// Groups of which only mean and deviation are known are taken as normal. A constant range is one of first errors where
/// first errors are judged, and of all sources where all are.
[[nodiscard]] RangeJudgement judge_ranges(const std::vector<ErrorGroup>& groups);

}  // namespace rehearse
