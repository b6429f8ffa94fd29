#pragma once
// Lessons and replays of the data directory, and what becomes of their plans.

#include <string>
#include <vector>

#include "core/api/data_directory.hpp"
#include "core/lesson/figures.hpp"
#include "core/lesson/lesson.hpp"

namespace rehearse::cli {

/// scenarios/lessons/NAME/lesson.json and scenarios/published/NAME/replay.json, sorted by name.
[[nodiscard]] std::vector<std::string> lesson_files(const DataDirectory& data);
[[nodiscard]] std::vector<std::string> replay_files(const DataDirectory& data);

/// The file that `word` means: one of `files` by its folder's name, or any file by its path. Throws Error (usage) with
/// did-you-mean.
[[nodiscard]] std::string find_lesson(const std::string& word, const std::vector<std::string>& files, const char* kind);

/// Plays every plan, with `changes` to all scenarios. A plan that does not fit into memory has no times.
[[nodiscard]] std::vector<LessonAnswer> play_plans(const Lesson& lesson, const std::vector<std::string>& changes,
                                                   const std::string& backend);

/// The same without times, for titles and the question: nothing is played.
[[nodiscard]] std::vector<LessonAnswer> unplayed_plans(const Lesson& lesson);

}  // namespace rehearse::cli
