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

/// A sentence, filled in, or why it is not said.
struct Said {
  std::string text;
  bool applies = true;
};

/// What there is to say of the answers. A sentence does not apply where one of `claims` that it rests on does not hold,
/// or where one of its figures has no value.
[[nodiscard]] std::vector<Said> sentences(const std::vector<Saying>& says, const std::vector<Showing>& claims,
                                          const std::vector<LessonAnswer>& answers);
/// The texts of those that apply, or of those that don't.
[[nodiscard]] std::vector<std::string> texts(const std::vector<Said>& said, bool applies);

/// A claim whose figures are missing does not hold.
[[nodiscard]] bool holds(const Showing& showing, const std::vector<LessonAnswer>& answers);

/// Those that do not hold, by their claim.
[[nodiscard]] std::vector<std::string> not_holding(const std::vector<Showing>& claims,
                                                   const std::vector<LessonAnswer>& answers);

/// `answers` are in the order of the lesson's plans. Throws Error (usage) for figures that are not there.
[[nodiscard]] Document lesson_document(const Lesson& lesson, const std::vector<LessonAnswer>& answers);

}  // namespace rehearse
