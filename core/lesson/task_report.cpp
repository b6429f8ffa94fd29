#include "core/lesson/task_report.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/lesson/lesson_report.hpp"

namespace rehearse {

namespace {

using nlohmann::ordered_json;

std::string command_of(const LessonTask& task, const std::string& more) {
  return fmt::format("rehearse task {}{}", task.name, more);
}

std::vector<DocumentBlock> question_blocks(const LessonTask& task) {
  std::vector<DocumentBlock> out{Heading{task.title}, Paragraph{task.question}};
  Facts facts{"", {{"plan", fmt::format("{} {}", task.scenario, fmt::join(task.changes, " "))}}};
  for (const Showing& goal : task.goals) facts.rows.emplace_back("goal", goal.claim);
  facts.rows.emplace_back("you may set", fmt::format("{}", fmt::join(task.may_change, ", ")));
  if (task.prediction) facts.rows.emplace_back("first guess", task.prediction->question);
  out.emplace_back(std::move(facts));
  return out;
}

ordered_json task_json(const LessonTask& task) {
  ordered_json out{{"schema", kTaskResultSchema}, {"task", task.name},
                   {"track", task.track},         {"title", task.title},
                   {"question", task.question},   {"scenario", task.scenario},
                   {"set", task.changes},         {"may_change", task.may_change}};
  out["predict"] = task.prediction ? ordered_json(task.prediction->question) : ordered_json(nullptr);
  out["predict_form"] = task.prediction ? ordered_json(task.prediction->form) : ordered_json(nullptr);
  return out;
}

Table figure_table(const TaskAttempt& attempt) {
  Table table{"", {{""}, {"step time", true}, {"memory needed", true}, {"there", true}, {"GPUs", true}}, {}};
  for (const LessonAnswer& a : attempt.answers) {
    const StageMemory& worst = a.report.memory.tightest();
    table.rows.push_back({a.key, a.report.memory.fits() ? to_string(a.report.metrics.step_time) : "does not fit",
                          to_string_iec(worst.needed), to_string_iec(worst.capacity),
                          std::to_string(a.report.head.plan.gpus)});
  }
  return table;
}

/// What the given plan and the tried one come to, for who is about to guess or has not got there yet.
ordered_json plans_json(const TaskAttempt& attempt) {
  auto out = ordered_json::array();
  for (const LessonAnswer& a : attempt.answers) {
    const StageMemory& worst = a.report.memory.tightest();
    const bool fits = a.report.memory.fits();
    out.push_back({{"plan", a.key},
                   {"fits", fits},
                   {"step_time_s", fits ? ordered_json(a.report.metrics.step_time.value()) : ordered_json(nullptr)},
                   {"needed_bytes", worst.needed.value()},
                   {"capacity_bytes", worst.capacity.value()}});
  }
  return out;
}

/// The figure that was to be predicted; nothing where the plan does not fit and it is one of time.
std::optional<double> came_out(const LessonTask& task, const TaskAttempt& attempt) {
  if (!task.prediction) return std::nullopt;
  return task.prediction->figure.value([&](const std::string& name) { return figure(attempt.answers, name); });
}

}  // namespace

Document task_document(const LessonTask& task, std::size_t hints) {
  Document out;
  out.blocks = question_blocks(task);
  const std::size_t shown = std::min(hints, task.hints.size());
  for (std::size_t i = 0; i < shown; ++i)
    out.blocks.emplace_back(Paragraph{fmt::format("Hint {}: {}", i + 1, task.hints[i])});
  Facts next{"Go on", {}};
  const std::string guess = task.prediction ? " --predict GUESS" : "";
  next.rows.emplace_back("try", command_of(task, guess + fmt::format(" --set {}=...", task.may_change.front())));
  if (shown < task.hints.size())
    next.rows.emplace_back("a hint", command_of(task, fmt::format(" --hint {}", shown + 1)));
  out.blocks.emplace_back(std::move(next));
  ordered_json json = task_json(task);
  json["hints"] = std::vector<std::string>(task.hints.begin(), task.hints.begin() + static_cast<std::ptrdiff_t>(shown));
  json["goals"] = ordered_json::array();
  for (const Showing& goal : task.goals) json["goals"].push_back({{"claim", goal.claim}});
  out.json = json.dump(2) + "\n";
  out.records.columns = {{"task"}, {"track"}, {"goal"}};
  for (const Showing& goal : task.goals) out.records.rows.push_back({task.name, task.track, goal.claim});
  return out;
}

Document attempt_document(const LessonTask& task, const TaskAttempt& attempt, std::optional<double> predicted) {
  Document out;
  out.blocks = question_blocks(task);
  out.blocks.emplace_back(figure_table(attempt));
  ordered_json json = task_json(task);
  json["attempt"] = attempt.changes;
  json["plans"] = plans_json(attempt);
  const std::optional<double> figure = came_out(task, attempt);
  if (predicted && figure) {
    const std::string& form = task.prediction->form;
    out.blocks.emplace_back(
        Facts{"", {{"predicted", figure_text(*predicted, form)}, {"came out", figure_text(*figure, form)}}});
  }
  if (task.prediction && predicted) json["predicted_text"] = figure_text(*predicted, task.prediction->form);
  if (figure) json["came_out_text"] = figure_text(*figure, task.prediction->form);
  json["predicted"] = predicted ? ordered_json(*predicted) : ordered_json(nullptr);
  json["came_out"] = figure ? ordered_json(*figure) : ordered_json(nullptr);
  const bool solved = solves(task, attempt);
  Facts goals{"", {}};
  json["goals"] = ordered_json::array();
  out.records.columns = {{"task"}, {"goal"}, {"reached"}};
  for (const Showing& goal : task.goals) {
    const bool reached = holds(goal, attempt.answers);
    goals.rows.emplace_back(reached ? "reached" : "not yet", goal.claim);
    json["goals"].push_back({{"claim", goal.claim}, {"holds", reached}});
    out.records.rows.push_back({task.name, goal.claim, reached ? "yes" : "no"});
  }
  const std::vector<std::string> beyond = beyond_approach(task, attempt);
  for (const std::string& key : beyond) goals.rows.emplace_back("not asked", key + " is to stay as it is");
  out.blocks.emplace_back(std::move(goals));
  json["beyond"] = beyond;
  json["solved"] = solved;
  std::vector<Said> said;
  if (solved) said = sentences(task.says, task.goals, attempt.answers);
  for (const Said& s : said) out.blocks.emplace_back(Paragraph{s.text});
  json["says"] = texts(said, true);
  json["left_out"] = texts(said, false);
  out.json = json.dump(2) + "\n";
  return out;
}

}  // namespace rehearse
