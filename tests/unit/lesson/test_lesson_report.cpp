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
  CHECK(not_shown(lesson, answers) == std::vector<std::string>{"b is slower"});
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
