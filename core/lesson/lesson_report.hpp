#pragma once
// What a lesson prints: pictures, sentences with their figures, whether it still shows what it is there to show, and
// predictions beside measurements.

#include <optional>
#include <string>
#include <vector>

#include "core/lesson/figures.hpp"
#include "core/lesson/lesson.hpp"
#include "core/scoreboard/errors.hpp"

namespace rehearse {

inline constexpr const char* kLessonResultSchema = "rehearse/lesson_result/v1";

/// One measurement beside its prediction.
struct ReplayRow {
  MeasuredFigure measurement;
  std::optional<double> predicted;  ///< Absent: `skipped` says why.
  std::string skipped;
  [[nodiscard]] bool counts() const { return predicted.has_value() && measurement.standing == Standing::measured; }
  /// predicted / measured - 1. Only where `predicted` is there.
  [[nodiscard]] double error() const { return *predicted / measurement.measured - 1; }
};

/// Errors of the rows that count, and how many rows do not.
struct ReplayErrors {
  ErrorStatistics counted;
  int skipped_rows = 0, uncounted_rows = 0;
};

[[nodiscard]] std::vector<ReplayRow> replay_rows(const Lesson& lesson, const std::vector<LessonAnswer>& answers);
[[nodiscard]] ReplayErrors replay_errors(const std::vector<ReplayRow>& rows);

/// Sentences that can be said of the answers, filled in: those whose figures have values.
[[nodiscard]] std::vector<std::string> sentences(const std::vector<Saying>& says,
                                                 const std::vector<LessonAnswer>& answers);
/// A claim whose figures are missing does not hold.
[[nodiscard]] bool holds(const Showing& showing, const std::vector<LessonAnswer>& answers);

/// Those of `lesson.shows` that do not hold, by their claim; one whose figures are missing does not hold.
[[nodiscard]] std::vector<std::string> not_shown(const Lesson& lesson, const std::vector<LessonAnswer>& answers);

/// `answers` are in the order of the lesson's plans. Throws Error (usage) for figures that are not there.
[[nodiscard]] Document lesson_document(const Lesson& lesson, const std::vector<LessonAnswer>& answers);

}  // namespace rehearse
