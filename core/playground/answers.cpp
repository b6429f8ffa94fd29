#include "core/playground/answers.hpp"

#include <optional>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/api.hpp"
#include "core/api/pictures.hpp"
#include "core/api/session/session.hpp"
#include "core/lesson/lesson_report.hpp"
#include "core/lesson/task_report.hpp"
#include "core/playground/choices.hpp"
#include "core/playground/steps.hpp"
#include "core/report/html/html_report.hpp"
#include "core/report/results/comparison.hpp"

namespace rehearse::playground {

namespace {

using nlohmann::ordered_json;

constexpr const char* kInline = "scenario";  ///< What messages call a scenario that came as an object.
constexpr std::size_t kRows = 16;            ///< Of the picture, where the request does not say.

/// A JSON object whose members are JSON texts.
std::string object_of(const PageParts& members) {
  std::string out = "{";
  for (const auto& [name, json] : members) {
    if (out.size() > 1) out += ',';
    out += ordered_json(name).dump() + ":" + json;
  }
  return out + "}";
}

std::vector<std::string> texts(const ordered_json& request, const char* key) {
  const auto found = request.find(key);
  return found == request.end() ? std::vector<std::string>{} : found->get<std::vector<std::string>>();
}

Session session_of(const ordered_json& request, const SessionOptions& sessions) {
  const ordered_json& scenario = request.at("scenario");
  if (scenario.is_string()) return open_session(scenario.get<std::string>(), texts(request, "set"), sessions);
  return open_session(parse_scenario(scenario.dump(), kInline, texts(request, "set")), sessions);
}

/// The members that every answer for a scenario has.
PageParts members_of(const Session& session, const Document& document) {
  return {{"answer", document.json},
          {"heading", ordered_json(document.heading()).dump()},
          {"warnings", ordered_json(session.scenario.warnings).dump()},
          {"stated", stated_json(session.scenario)}};
}

std::string with_pictures(const Session& session, const Program& program, const StepReport& report) {
  PageParts out = members_of(session, to_document(report));
  for (auto& part : step_pictures(session, program, report)) out.push_back(std::move(part));
  return object_of(out);
}

std::string estimated(const ordered_json& request, const SessionOptions& sessions) {
  const Session session = session_of(request, sessions);
  const Program program = session.lowered();
  EstimateOptions options;
  options.suggest = request.value("suggest", false);
  return with_pictures(session, program, estimate(session, program, options));
}

std::string simulated(const ordered_json& request, const SessionOptions& sessions) {
  const Session session = session_of(request, sessions);
  const Program program = session.lowered();
  SimulateOptions options;
  options.suggest = request.value("suggest", false);
  options.pictured = request.value("ranks", kRows);
  return with_pictures(session, program, simulate(session, program, options));
}

std::string remembered(const ordered_json& request, const SessionOptions& sessions) {
  const Session session = session_of(request, sessions);
  const MemoryAnswer found = memory(session, session.lowered());
  PageParts out = members_of(session, to_document(found));
  out.emplace_back("plan", plan_json(found.head.plan));
  return object_of(out);
}

std::string compared(const ordered_json& request) {
  std::vector<ComparedStep> steps;
  const std::vector<std::string> names = texts(request, "names");
  for (const ordered_json& result : request.at("results")) {
    const std::string& name = names.at(steps.size());
    steps.push_back(read_result(result.dump(), name));
    steps.back().name = name;
  }
  return object_of({{"answer", comparison_document(steps).json}});
}

std::string taught(const ordered_json& request) {
  const Lesson lesson =
      load_lesson(find_lesson(request.at("name").get<std::string>(), lesson_files(find_data()), "lesson"));
  const auto answers = play_plans(lesson, texts(request, "set"), default_backend());
  PageParts out = lesson_pictures(answers);
  out.emplace_back("answer", lesson_document(lesson, answers).json);
  return object_of(out);
}

/// A task as it is given, or where there is an attempt what becomes of it.
std::string tried(const ordered_json& request) {
  const LessonTask task = load_task(find_task(request.at("name").get<std::string>(), find_data()));
  if (!request.contains("set")) return object_of({{"answer", task_document(task, kTaskHints).json}});
  std::optional<double> predicted;
  if (const std::string guess = request.value("predict", ""); !guess.empty() && task.prediction)
    predicted = parse_figure(guess, task.prediction->form);
  const TaskAttempt attempt = try_task(task, texts(request, "set"), default_backend());
  return object_of({{"answer", attempt_document(task, attempt, predicted).json}});
}

std::string reply_to(const ordered_json& request, const SessionOptions& sessions) {
  const auto ask = request.at("ask").get<std::string>();
  if (ask == "choices") return choices_json(find_data());
  if (ask == "estimate") return estimated(request, sessions);
  if (ask == "simulate") return simulated(request, sessions);
  if (ask == "memory") return remembered(request, sessions);
  if (ask == "compare") return compared(request);
  if (ask == "lesson") return taught(request);
  if (ask == "task") return tried(request);
  if (ask == "ring") return ring_json(request);
  if (ask == "pipeline") return pipeline_json(request);
  if (ask == "exchange") return exchange_json(request);
  throw Error(ErrorKind::usage, "nothing is known of '" + ask + "'", "ask");
}

std::string refusal(const std::string& what, const std::string& where, const std::string& hint, ErrorKind kind) {
  const ordered_json error{{"what", what}, {"where", where}, {"hint", hint}, {"kind", static_cast<int>(kind)}};
  return ordered_json{{"error", error}}.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace

std::string answer(std::string_view request, const SessionOptions& sessions) noexcept {
  try {
    return reply_to(ordered_json::parse(request), sessions);
  } catch (const Error& e) {
    return refusal(e.what(), e.where, e.hint, e.kind);
  } catch (const std::exception& e) {
    return refusal(e.what(), "", "please report it with the address of this page", ErrorKind::check_failed);
  }
}

}  // namespace rehearse::playground
