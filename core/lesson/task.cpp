#include "core/lesson/task.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/portable.hpp"
#include "core/config/json_file.hpp"
#include "core/lesson/file_parts.hpp"
#include "core/lesson/lesson_report.hpp"

namespace rehearse {

namespace {

const std::vector<std::string> kPlans{"start", "plan"};
constexpr std::int64_t kMostInTrack = 1000;

std::string key_of(const std::string& change) { return change.substr(0, change.find('=')); }

TaskPrediction read_prediction(ObjectReader in) {
  TaskPrediction out{in.string("question"), Formula::parse(in.string("figure"), in.where("figure")),
                     in.choice("form", figure_forms(), "number")};
  check_plans_named(kPlans, out.figure.names(), in.where("figure"));
  in.finish();
  return out;
}

void check(const LessonTask& task) {
  const std::string at = task.origin + ": /";
  const auto refuse = [&](const std::string& key, const std::string& what) {
    throw Error(ErrorKind::usage, what, at + key);
  };
  if (task.goals.empty()) refuse("goals", "a task without a goal");
  if (task.may_change.empty()) refuse("may_change", "nothing may be changed");
  if (task.hints.size() != kTaskHints)
    refuse("hints", fmt::format("{} hints: wanted {}", task.hints.size(), kTaskHints));
  if (task.solution.empty()) refuse("solution", "a task without a solution");
  for (const std::string& change : task.solution) {
    if (std::find(task.may_change.begin(), task.may_change.end(), key_of(change)) == task.may_change.end())
      refuse("solution", fmt::format("sets {}, which may not be changed", key_of(change)));
    if (task.hints.back().find(change) == std::string::npos)
      refuse("hints", fmt::format("the last one does not say {}", change));
  }
  for (std::size_t i = 0; i < task.goals.size(); ++i)
    check_plans_named(kPlans, task.goals[i].holds.names(), fmt::format("{}goals/{}", at, i));
  for (std::size_t i = 0; i < task.says.size(); ++i) {
    check_plans_named(kPlans, names_in(task.says[i]), fmt::format("{}says/{}", at, i));
    check_claims(task.goals, task.says[i].rests_on, fmt::format("{}says/{}", at, i));
  }
}

}  // namespace

const std::vector<std::string>& task_tracks() {
  static const std::vector<std::string> all{"one_gpu",         "memory",           "data_parallel",
                                            "tensor_pipeline", "experts_and_long", "buying"};
  return all;
}

LessonTask parse_task(const std::string& text, const std::string& origin) {
  const nlohmann::json document = parse_json(text, origin);
  ObjectReader in(document, origin);
  const std::vector<std::string> schemas{kTaskSchema};
  (void)in.choice("schema", schemas);
  const std::filesystem::path path(origin);
  LessonTask out;
  out.name = path.stem().string();
  out.origin = origin;
  out.track = in.choice("track", task_tracks());
  out.place = static_cast<int>(in.integer("place", {1, kMostInTrack}));
  out.title = in.string("title");
  out.question = in.string("question");
  out.scenario = (path.parent_path() / in.string("scenario")).lexically_normal().string();
  out.changes = optional_strings(in, "set");
  if (auto prediction = in.optional_object("predict")) out.prediction = read_prediction(std::move(*prediction));
  out.goals = read_showings(in, "goals");
  out.may_change = in.strings("may_change");
  out.hints = in.strings("hints");
  out.solution = in.strings("solution");
  out.wrong = in.strings("wrong");
  out.says = read_sayings(in, "says");
  in.finish();
  check(out);
  return out;
}

LessonTask load_task(const std::string& path) { return parse_task(read_text(path), path); }

std::vector<std::string> beyond_approach(const LessonTask& task, const TaskAttempt& attempt) {
  std::vector<std::string> out;
  for (const std::string& change : attempt.changes)
    if (std::find(task.may_change.begin(), task.may_change.end(), key_of(change)) == task.may_change.end())
      out.push_back(key_of(change));
  return out;
}

bool solves(const LessonTask& task, const TaskAttempt& attempt) {
  return beyond_approach(task, attempt).empty() &&
         std::all_of(task.goals.begin(), task.goals.end(),
                     [&](const Showing& goal) { return holds(goal, attempt.answers); });
}

double parse_figure(const std::string& text, const std::string& form) {
  if (form == "time") return parse<Seconds>(text).value();
  if (form == "bytes" || form == "gib") return parse<Bytes>(text).value();
  if (form == "flops") return parse<Flops>(text).value();
  const bool percent = form == "percent";
  double value = 0;
  const auto [end, failed] = number_from_chars(text.data(), text.data() + text.size(), value);
  const std::string rest(static_cast<const char*>(end), text.data() + text.size());
  const bool unit =
      (percent && (rest == "%" || rest == " %")) || (form == "times" && (rest == "x" || rest == " times"));
  if (failed != std::errc{} || !(rest.empty() || unit))
    throw Error(ErrorKind::usage, fmt::format("'{}' is not a number{}", text, percent ? " of percent" : ""),
                "--predict", percent ? "example: 35%" : "example: 1024");
  return percent ? value / 100 : value;
}

}  // namespace rehearse
