#include <fmt/format.h>

#include "core/api/task.hpp"
#include "core/cli/backend_choice.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verbs.hpp"
#include "core/cli/verbs/listings.hpp"
#include "core/lesson/task_report.hpp"

namespace rehearse::cli {

namespace {

std::optional<double> prediction(const LessonTask& task, const Arguments& arguments) {
  if (!arguments.has("--predict")) return std::nullopt;
  if (!task.prediction)
    throw Error(ErrorKind::usage, "nothing is to be predicted in this task", "--predict", "leave it out");
  return parse_figure(arguments.text("--predict"), task.prediction->form);
}

int show_attempt(const LessonTask& task, const std::vector<std::string>& changes, const Arguments& arguments,
                 Console& console) {
  const std::optional<double> predicted = prediction(task, arguments);
  const TaskAttempt attempt = try_task(task, changes, chosen_backend(arguments, console));
  print(attempt_document(task, attempt, predicted), arguments, console);
  return solves(task, attempt) ? 0 : static_cast<int>(ErrorKind::check_failed);
}

int run_task(const Arguments& arguments, Console& console) {
  check_output(arguments);
  if (!arguments.has("TASK")) {
    const Table table = listing("tasks", find_data());
    print({{table, Paragraph{"rehearse task NAME asks one."}}, table, ""}, arguments, console);
    return 0;
  }
  const LessonTask task = load_task(find_task(arguments.text("TASK"), find_data()));
  if (arguments.has("--solve")) return show_attempt(task, task.solution, arguments, console);
  if (const auto changes = arguments.all("--set"); !changes.empty())
    return show_attempt(task, changes, arguments, console);
  const auto hints = static_cast<std::size_t>(arguments.whole("--hint", 0, 0, kTaskHints));
  print(task_document(task, hints), arguments, console);
  return 0;
}

}  // namespace

Verb task_verb() {
  Verb verb{"task",
            "A plan to change until it reaches a goal: predict, try, and read why.",
            {"rehearse task", "rehearse task state_in_shards", "rehearse task state_in_shards --hint 1",
             "rehearse task state_in_shards --predict 60GiB --set strategy.zero_stage=1"},
            {{"TASK", "a name ('rehearse list tasks') or a file (rehearse/task/v1); nothing lists them", false}},
            {{"--hint", "N", "show the first N of three hints; the last one says what to type"},
             {"--predict", "GUESS", "what you think comes out, in the task's unit: it is set beside what does"},
             {"--solve", "", "try the stated solution"},
             backend_option()},
            "Exit code 1 where an attempt does not reach all goals, or sets what the task leaves as it is.",
            run_task};
  for (Option& o : result_options()) verb.options.push_back(std::move(o));
  return verb;
}

}  // namespace rehearse::cli
