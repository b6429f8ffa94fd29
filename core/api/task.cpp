#include "core/api/task.hpp"

#include <algorithm>

#include "core/api/lesson.hpp"
#include "core/base/registry.hpp"

namespace rehearse {

namespace fs = std::filesystem;

std::vector<std::string> task_files(const DataDirectory& data) {
  std::vector<std::string> out;
  for (const std::string& track : task_tracks()) {
    std::vector<std::pair<int, std::string>> of_track;
    std::error_code unreadable;
    for (const auto& entry : fs::directory_iterator(data.tasks() / track, unreadable))
      if (entry.path().extension() == ".json")
        of_track.emplace_back(load_task(entry.path().string()).place, entry.path().string());
    std::sort(of_track.begin(), of_track.end());
    for (auto& [place, file] : of_track) out.push_back(std::move(file));
  }
  return out;
}

std::string find_task(const std::string& word, const DataDirectory& data) {
  if (word.find('/') != std::string::npos || word.ends_with(".json")) return word;
  std::vector<std::string> names;
  for (const std::string& file : task_files(data)) {
    names.push_back(fs::path(file).stem().string());
    if (names.back() == word) return file;
  }
  throw unknown_name("task", word, names);
}

TaskAttempt try_task(const LessonTask& task, const std::vector<std::string>& changes, const std::string& backend) {
  Lesson both;
  const auto plan = [&](const char* key, const char* title) {
    return LessonPlan{key, FigureText::parse(title, task.origin), task.scenario, false, task.changes, {}};
  };
  both.plans = {plan("start", "as it is given"), plan("plan", "as it was tried")};
  both.plans.back().changes.insert(both.plans.back().changes.end(), changes.begin(), changes.end());
  return {changes, play_plans(both, {}, backend)};
}

}  // namespace rehearse
