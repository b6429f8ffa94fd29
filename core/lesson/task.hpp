#pragma once
// A task (`rehearse/task/v1`): a plan that is to be changed until it reaches goals, which are checked by playing it.
//
//   { "schema": "rehearse/task/v1", "track": "memory", "place": 1, "title": "Make it fit",
//     "question": "The optimizer's state does not fit beside the weights. Divide it.",
//     "scenario": "../../llama3_8b_h100_8.json", "set": ["strategy.zero_stage=0"],
//     "predict": { "question": "How much does the fullest GPU need then?", "figure": "plan.needed", "form": "gib" },
//     "goals": [{ "claim": "it fits", "holds": "plan.fits" }],
//     "may_change": ["strategy.zero_stage"],
//     "hints": ["...", "...", "Try `--set strategy.zero_stage=1`."],
//     "solution": ["strategy.zero_stage=1"], "wrong": ["strategy.zero_stage=0"],
//     "says": ["The state is divided over {plan.gpus|count} GPUs: {start.memory.optimizer|gib} became ..."] }
//
// Figures (figures.hpp) are those of `start`, the plan as it is given, and of `plan`, the one that was tried. All
// errors are Error (usage) with the place in the file.

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "core/lesson/figures.hpp"
#include "core/lesson/lesson.hpp"

namespace rehearse {

inline constexpr const char* kTaskSchema = "rehearse/task/v1";
inline constexpr std::size_t kTaskHints = 3;

/// What tasks are about, in the order in which they are learned.
[[nodiscard]] const std::vector<std::string>& task_tracks();

/// What is to be guessed before it is shown.
struct TaskPrediction {
  std::string question;
  Formula figure;
  std::string form;  ///< figure_forms().
};

struct LessonTask {
  std::string name;    ///< Of its file.
  std::string origin;  ///< The file.
  std::string track;   ///< One of task_tracks().
  int place = 0;       ///< In its track, from 1: in this order the tasks of a track build on each other.
  std::string title, question;
  std::string scenario;              ///< Its file, found from the task's own place.
  std::vector<std::string> changes;  ///< Of the scenario, as --set takes them: the plan that is given.
  std::optional<TaskPrediction> prediction;
  std::vector<Showing> goals;           ///< At least one.
  std::vector<std::string> may_change;  ///< Keys that an attempt may set: the approach. At least one.
  /// From a nudge to what to type: the last one names the solution.
  std::vector<std::string> hints;
  std::vector<std::string> solution, wrong;  ///< Changes that reach the goals, and some that don't.
  std::vector<Saying> says;                  ///< The explanation, of `start` and of the plan that solved it.
};

/// Reads the file at `path`.
[[nodiscard]] LessonTask load_task(const std::string& path);
/// `origin` stands for the file in errors, and the scenario is looked for beside it.
[[nodiscard]] LessonTask parse_task(const std::string& text, const std::string& origin);

/// An attempt and what became of it.
struct TaskAttempt {
  std::vector<std::string> changes;   ///< As --set takes them, beyond the task's own.
  std::vector<LessonAnswer> answers;  ///< `start` and `plan`.
};

/// Keys that the attempt sets and the task does not let it.
[[nodiscard]] std::vector<std::string> beyond_approach(const LessonTask& task, const TaskAttempt& attempt);
/// Whether all goals hold, by the approach that was asked for.
[[nodiscard]] bool solves(const LessonTask& task, const TaskAttempt& attempt);

/// A prediction as people type it: "1.2s", "40GiB", "35%", "1024". Throws Error (usage) for anything else.
[[nodiscard]] double parse_figure(const std::string& text, const std::string& form);

}  // namespace rehearse
