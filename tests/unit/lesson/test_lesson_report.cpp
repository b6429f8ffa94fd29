// What a lesson prints follows from its answers: sentences, checks, errors of predictions, and pictures to one scale.

#include <algorithm>

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/lesson/pictures.hpp"
#include "core/report/formats/format.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/lesson/answers.hpp"

using namespace rehearse;
using test::answer;

namespace {

std::string printed(const Document& d, int width = 80) { return formats().at("table").value(d, {width, false}); }

ReplayRow row(double predicted, double measured, Standing standing = Standing::measured) {
  MeasuredFigure m;
  m.measured = measured;
  m.standing = standing;
  return {m, predicted, {}};
}

}  // namespace

TEST_CASE("sentences say what the answers say") {
  const Lesson lesson = parse_lesson(test::kLesson, "lesson.json");
  const std::string slower = printed(lesson_document(lesson, {answer("a", 1), answer("b", 3)}));
  CHECK(slower.find("b takes 3 times as long.") != std::string::npos);
  CHECK(slower.find("Not so here") == std::string::npos);
  const std::string faster = printed(lesson_document(lesson, {answer("a", 4), answer("b", 2)}));
  CHECK(faster.find("b takes 0.5 times as long.") != std::string::npos);
  CHECK(faster.find("Not so here\n-  b is slower") != std::string::npos);
}

TEST_CASE("a plan that does not fit has no times, and nothing is said about them") {
  const Lesson lesson = parse_lesson(test::kLesson, "lesson.json");
  const std::vector<LessonAnswer> answers{answer("a", 1), answer("b", 1, 20)};
  const std::string text = printed(lesson_document(lesson, answers));
  CHECK(text.find("b takes") == std::string::npos);
  CHECK(text.find("too large") != std::string::npos);
  CHECK(text.find("20.00 of 16 GiB OVER") != std::string::npos);
  CHECK(not_holding(lesson.shows, answers) == std::vector<std::string>{"b is slower"});
  CHECK(text.find("b is slower: not known, as a plan does not fit into memory") != std::string::npos);
  CHECK_FALSE(figure(answers, "b.step_time").has_value());
  CHECK(figure(answers, "b.fits") == 0.0);
}

TEST_CASE("figures that are not there are named with the nearest") {
  try {
    (void)figure({answer("a", 1)}, "a.step_tme");
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.hint.find("step_time") != std::string::npos);
  }
}

TEST_CASE("time and its categories add up") {
  const LessonAnswer a = answer("a", 3);
  CHECK(a.figures.at("time.compute") + a.figures.at("time.communication") + a.figures.at("time.input") +
            a.figures.at("time.bubble") ==
        Approx(3));
  CHECK(a.figures.at("samples") == Approx(8));
}

TEST_CASE("bars are to one scale, no wider than the page, and parts add up to the bar") {
  for (const int width : {60, 80, 120}) {
    const DocumentBlock block =
        draw_picture({PictureKind::time, "", "", "", {}}, {answer("long_name", 4), answer("b", 2)});
    const std::string text = std::get<Picture>(block).draw({width, false});
    const std::string first = text.substr(0, text.find('\n')),
                      second = text.substr(first.size() + 1, text.find('\n', first.size() + 1) - first.size() - 1);
    CHECK(columns_of(first) <= width);
    const auto count = [](const std::string& line, char c) {
      return std::count(line.begin() + static_cast<std::ptrdiff_t>(line.find('|')), line.end(), c);
    };
    CHECK(std::abs(count(first, '#') - 2 * count(second, '#')) <= 1);
    CHECK(std::abs(count(first, '#') - count(first, '.')) <= 1);
  }
}

TEST_CASE("errors of predictions: claims and unverified rows are shown and count nowhere") {
  ReplayRow unpredicted = row(1, 1);
  unpredicted.predicted.reset();
  const std::vector<ReplayRow> rows{
      row(11, 10), row(8, 10), row(10, 10), row(99, 1, Standing::claim), row(99, 1, Standing::unverified), unpredicted};
  const ReplayErrors e = replay_errors(rows);
  CHECK(e.counted.rows == 3);
  CHECK(e.uncounted_rows == 2);
  CHECK(e.skipped_rows == 1);
  CHECK(e.counted.median == Approx(0.1));
  CHECK(e.counted.worst == Approx(0.2));
  CHECK(e.counted.mean == Approx(0.1));
  CHECK(e.counted.bias == Approx(0).margin(1e-12));
  CHECK(replay_errors({}).counted.median == 0);
}

TEST_CASE("JSON holds plans, claims that were checked, and rows as scoreboards read them") {
  std::string text = test::kLesson;
  text.replace(text.find("\"title\": \"T\""), 12,
               R"("title": "T", "measurements": [{ "id": "m", "what": "step", "unit": "s", "measured": 2,
      "predicted": "a.step_time", "source": "paper" }])");
  const auto json =
      nlohmann::json::parse(lesson_document(parse_lesson(text, "lesson.json"), {answer("a", 1), answer("b", 3)}).json);
  CHECK(json.at("rows").at(0).at("error") == Approx(-0.5));
  CHECK(json.at("summary").at("median_abs_error") == Approx(0.5));
  CHECK(json.at("shows").at(0).at("holds") == true);
  CHECK(json.at("plans").at(1).at("figures").at("step_time") == 3);
}

namespace {

/// Two nodes of two GPUs and two queues; blue's second job waits for the end of its first.
LessonAnswer shared(const std::string& key, const std::string& quota) {
  FleetAnswer a;
  a.fleet.nodes = {{.name = "x", .gpus = 2}, {.name = "y", .gpus = 2}};
  a.fleet.queues = {{.name = "red", .guaranteed = 2}, {.name = "blue", .guaranteed = 2}};
  const auto job = [](const char* name, double hours) {
    fleet::Job j;
    j.name = name, j.queue = "blue", j.request.gpus = 2, j.duration = Seconds{3600 * hours};
    return j;
  };
  a.fleet.jobs = {job("one", 2), job("two", 1)};
  a.fleet.policy.quota = quota;
  a.result = fleet::run_fleet(a.fleet);
  Figures figures = figures_of(a);
  return {key, "plan " + key, {}, std::move(figures), std::make_shared<const FleetAnswer>(std::move(a))};
}

}  // namespace

TEST_CASE("figures of a fleet: waits by hand, and GPU-hours that add up") {
  const LessonAnswer hard = shared("hard", "hard"), none = shared("none", "none");
  CHECK(hard.figures.at("queue.blue.wait.mean") == Approx(3600));
  CHECK(hard.figures.at("waited.quota") == Approx(7200));
  CHECK(hard.figures.at("hours.useful") == Approx(6));
  CHECK(hard.figures.at("hours.quota") == Approx(4));
  CHECK(none.figures.at("wait.mean") == 0);
  CHECK(none.figures.at("played") == Approx(7200));
  for (const LessonAnswer& a : {hard, none}) {
    double sum = 0;
    for (const char* part : {"useful", "lost", "restarts", "down", "order", "quota", "fragments", "busy", "unwanted"})
      sum += a.figures.at(std::string("hours.") + part);
    CHECK(sum == Approx(a.figures.at("hours.capacity")));
  }
}

TEST_CASE("a picture of nodes has a row of each and of waiting jobs") {
  const DocumentBlock block =
      draw_picture({PictureKind::nodes, "", "", "", {}}, {shared("hard", "hard"), shared("none", "none")});
  const std::string text = std::get<Picture>(block).draw({40, false});
  const auto row = [&text](const std::string& name, std::size_t from) {
    const std::size_t at = text.find("\n" + name, from) + 1, bar = text.find('|', at) + 1;
    return text.substr(bar, text.find('|', bar) - bar);
  };
  // Three hours on node x and blue's second job behind for two of them; then two hours side by side.
  const std::string x = row("x", 0), waits = row("blue waits", 0);
  CHECK(x.find_first_not_of('B') == std::string::npos);
  CHECK(row("y", 0).find_first_not_of('.') == std::string::npos);
  CHECK(std::abs(static_cast<double>(std::count(waits.begin(), waits.end(), '1')) / static_cast<double>(x.size()) -
                 2.0 / 3) < 0.05);
  const std::size_t second = text.find("\nnone\n");
  REQUIRE(second != std::string::npos);
  CHECK(row("blue waits", second).find('1') == std::string::npos);
  CHECK(row("y", second).find('B') == 0);
}
