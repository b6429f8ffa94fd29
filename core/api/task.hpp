#pragma once
// Tasks of the data directory, and what becomes of attempts.
//
//   const rehearse::LessonTask task = rehearse::load_task(rehearse::find_task("state_in_shards",
//   rehearse::find_data())); const auto attempt = rehearse::try_task(task, {"strategy.zero_stage=1"}, "analytic"); if
//   (rehearse::solves(task, attempt)) ...

#include <string>
#include <vector>

#include "core/api/data_directory.hpp"
#include "core/lesson/task.hpp"

namespace rehearse {

/// scenarios/tasks/TRACK/NAME.json, in the order of task_tracks() and of their places there.
[[nodiscard]] std::vector<std::string> task_files(const DataDirectory& data);

/// The file that `word` means: a task's name, or any file by its path. Throws Error (usage) with did-you-mean.
[[nodiscard]] std::string find_task(const std::string& word, const DataDirectory& data);

/// Plays the plan as it is given, and with `changes`, on the back end of that name. Throws Error as play_plans() does.
[[nodiscard]] TaskAttempt try_task(const LessonTask& task, const std::vector<std::string>& changes,
                                   const std::string& backend);

}  // namespace rehearse
