// Lessons, replays and tasks, and what is typed at a task.

#include "core/lesson/lesson.hpp"
#include "core/lesson/task.hpp"
#include "tests/fuzz/inputs.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/support/source_path.hpp"

namespace rehearse::fuzz::lessons {

namespace {

void run_lesson(std::string_view bytes) {
  static const std::string origin = testing::source_path("scenarios/lessons/zero/lesson.json");
  const Lesson read = parse_lesson(std::string(bytes), origin);
  require(!read.plans.empty(), "a lesson without plans");
}

/// The task's file, and an attempt behind it.
void run_task(std::string_view bytes) {
  static const std::string origin = testing::source_path("scenarios/tasks/fuzzed.json");
  const Overridden in = overridden(bytes);
  const LessonTask read = parse_task(in.text, origin);
  (void)beyond_approach(read, {in.overrides, {}});
  if (read.prediction)
    for (const std::string& typed : in.overrides) (void)parse_figure(typed, read.prediction->form);
}

void read_lesson(const std::string& path) { (void)load_lesson(path); }
void read_task(const std::string& path) { (void)load_task(path); }

constexpr std::size_t kLongest = 12288;

const bool registered_lessons =
    targets().add({"lessons",
                   "lessons and replays",
                   {},
                   {.run = run_lesson,
                    .seeds = {{"scenarios/lessons", "lesson.json"}, {"scenarios/published", "replay.json"}},
                    .longest = kLongest,
                    .limits = {64'000'000, "64 deep", read_lesson}}});
const bool registered_tasks = targets().add({"tasks",
                                             "tasks, and attempts at them",
                                             {},
                                             {.run = run_task,
                                              .seeds = {{"scenarios/tasks", ".json"}},
                                              .longest = kLongest,
                                              .limits = {64'000'000, "64 deep", read_task}}});

}  // namespace

}  // namespace rehearse::fuzz::lessons
