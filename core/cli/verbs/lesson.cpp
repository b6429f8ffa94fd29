#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/api/lesson.hpp"
#include "core/api/pictures.hpp"
#include "core/cli/backend_choice.hpp"
#include "core/cli/html_output.hpp"
#include "core/cli/output.hpp"
#include "core/cli/run/run_watch.hpp"
#include "core/cli/verbs.hpp"
#include "core/cli/verbs/listings.hpp"
#include "core/lesson/lesson_report.hpp"
#include "core/report/results/error_figures.hpp"

namespace rehearse::cli {

namespace {

constexpr int kReadingWidth = 80;

/// Lessons are read, not scanned: as wide as a page.
Console page(Console& console) {
  Console out = console;
  out.style.width = std::min(out.style.width, kReadingWidth);
  return out;
}

/// `verb`: lesson or replay.
int show(const std::string& verb, const std::string& file, const Arguments& arguments, Console& console) {
  check_html(arguments);
  const Lesson lesson = load_lesson(file);
  const std::vector<LessonAnswer> answers =
      play_plans(lesson, arguments.all("--set"), chosen_backend(arguments, console));
  Console narrow = page(console);
  const Document document = lesson_document(lesson, answers);
  print(document, arguments, narrow);
  write_html(verb, document, arguments, console, [&] { return lesson_pictures(answers); });
  return not_holding(lesson.shows, answers).empty() || arguments.has("--set")
             ? 0
             : static_cast<int>(ErrorKind::check_failed);
}

void refuse_page_of_list(const std::string& verb, const Arguments& arguments) {
  if (arguments.has("--html"))
    throw Error(ErrorKind::usage, fmt::format("a page shows one {}", verb), "--html",
                fmt::format("name it: rehearse {} NAME --html FILE; rehearse list {}s has the names", verb, verb));
}

void print_listing(const char* kind, const std::string& advice, const Arguments& arguments, Console& console) {
  const Table table = listing(kind, find_data());
  print({{table, Paragraph{advice}}, table, ""}, arguments, console);
}

int lesson(const Arguments& arguments, Console& console) {
  check_output(arguments);
  if (arguments.has("LESSON"))
    return show("lesson", find_lesson(arguments.text("LESSON"), lesson_files(find_data()), "lesson"), arguments,
                console);
  refuse_page_of_list("lesson", arguments);
  print_listing("lessons", "rehearse lesson NAME shows one.", arguments, console);
  return 0;
}

struct Replayed {
  Lesson lesson;
  std::vector<ReplayRow> rows;
};

Document overview(const std::vector<Replayed>& all) {
  Document out;
  Table table{
      "Prediction beside measurement",
      {{"replay"}, {"rows that count", true}, {"median error %", true}, {"worst %", true}, {"shown only", true}},
      {}};
  std::vector<ReplayRow> rows;
  auto json = nlohmann::ordered_json{{"schema", "rehearse/replays/v1"}, {"replays", nlohmann::ordered_json::array()}};
  out.records.columns = {{"replay"}, {"id"}, {"unit"}, {"predicted"}, {"measured"}, {"standing"}};
  for (const Replayed& r : all) {
    const ReplayErrors errors = replay_errors(r.rows);
    const ErrorStatistics& e = errors.counted;
    const auto percent = [&](double v) { return e.rows > 0 ? fmt::format("{:.1f}", 100 * v) : std::string("-"); };
    table.rows.push_back({r.lesson.name, std::to_string(e.rows), percent(e.median), percent(e.worst),
                          std::to_string(errors.uncounted_rows + errors.skipped_rows)});
    json["replays"].push_back({{"name", r.lesson.name},
                               {"predicted_rows", e.rows},
                               {"median_abs_error", e.median},
                               {"worst_abs_error", e.worst}});
    for (const ReplayRow& row : r.rows)
      out.records.rows.push_back({r.lesson.name, row.measurement.id, row.measurement.unit,
                                  row.predicted ? fmt::format("{}", *row.predicted) : "",
                                  fmt::format("{}", row.measurement.measured),
                                  std::string(name_of(row.measurement.standing))});
    rows.insert(rows.end(), r.rows.begin(), r.rows.end());
  }
  const ErrorStatistics e = replay_errors(rows).counted;
  out.blocks = {table,
                Paragraph{fmt::format("{} rows count: median error {:.1f} %, 90th percentile {:.1f} %, worst {:.1f} %. "
                                      "rehearse replay NAME shows the rows of one, with their sources.",
                                      e.rows, 100 * e.median, 100 * e.p90, 100 * e.worst)}};
  json["summary"] = {{"predicted_rows", e.rows}};
  json["summary"].update(error_figures_json(e));
  out.json = json.dump(2) + "\n";
  return out;
}

int replay(const Arguments& arguments, Console& console) {
  check_output(arguments);
  const std::vector<std::string> files = replay_files(find_data());
  if (arguments.has("REPLAY"))
    return show("replay", find_lesson(arguments.text("REPLAY"), files, "replay"), arguments, console);
  refuse_page_of_list("replay", arguments);
  std::vector<Replayed> all;
  const std::string backend = chosen_backend(arguments, console);
  for (const std::string& file : files) {
    Lesson lesson = load_lesson(file);
    std::vector<ReplayRow> rows = replay_rows(lesson, play_plans(lesson, arguments.all("--set"), backend));
    all.push_back({std::move(lesson), std::move(rows)});
  }
  Console narrow = page(console);
  print(overview(all), arguments, narrow);
  return 0;
}

Verb with_result_options(Verb verb) {
  verb.options.push_back(backend_option());
  verb.options.push_back(html_option());
  for (Option& o : result_options()) verb.options.push_back(std::move(o));
  return verb;
}

}  // namespace

Verb lesson_verb() {
  return with_result_options(
      {"lesson",
       "A few plans side by side, their picture, and what they teach, with the numbers.",
       {"rehearse lesson", "rehearse lesson funnel",
        "rehearse lesson scenarios/lessons/funnel/lesson.json --backend analytic"},
       {{"LESSON", "a name ('rehearse list lessons') or a file (rehearse/lesson/v1); nothing lists them", false}},
       {},
       "Sentences are filled in from the results. Exit code 1 where the plans no longer show what the lesson claims; "
       "with --set, which changes every "
       "scenario of the lesson alike, that is told and no failure.",
       lesson});
}

Verb replay_verb() {
  return with_result_options({"replay",
                              "Published results replayed: prediction beside measurement, with sources.",
                              {"rehearse replay", "rehearse replay goyal_p100"},
                              {{"REPLAY", "a name ('rehearse list replays') or a file; nothing replays all", false}},
                              {},
                              "Rows without a source, or whose source was not read, are shown and count in no figure.",
                              replay});
}

}  // namespace rehearse::cli
