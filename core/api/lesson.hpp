#pragma once
// Lessons and replays of the data directory, and what becomes of their plans.
//
//   const auto file = rehearse::find_lesson("funnel", rehearse::lesson_files(rehearse::find_data()), "lesson");
//   const rehearse::Lesson lesson = rehearse::load_lesson(file);
//   const auto answers = rehearse::play_plans(lesson, {"strategy.bucket=25MB"}, rehearse::default_backend());
//   std::cout << rehearse::lesson_document(lesson, answers).json;

#include <functional>
#include <string>
#include <vector>

#include "core/api/data_directory.hpp"
#include "core/lesson/figures.hpp"
#include "core/lesson/lesson.hpp"

namespace rehearse {

/// scenarios/lessons/NAME/lesson.json and scenarios/published/NAME/replay.json, sorted by name.
[[nodiscard]] std::vector<std::string> lesson_files(const DataDirectory& data);
[[nodiscard]] std::vector<std::string> replay_files(const DataDirectory& data);

/// The file that `word` means: one of `files` by its folder's name, or any file by its path. Throws Error (usage) with
/// did-you-mean.
[[nodiscard]] std::string find_lesson(const std::string& word, const std::vector<std::string>& files, const char* kind);

/// Plays every plan on the back end of that name, with `changes` to all scenarios. A plan that does not fit into memory
/// has no times. Where a change is of a key by which the plans differ, their titles say what it is set to now. Throws
/// Error as simulate() and open_fleet() do.
[[nodiscard]] std::vector<LessonAnswer> play_plans(const Lesson& lesson, const std::vector<std::string>& changes,
                                                   const std::string& backend);

/// The same without times, for titles and the question: nothing is played.
[[nodiscard]] std::vector<LessonAnswer> unplayed_plans(const Lesson& lesson);

}  // namespace rehearse
