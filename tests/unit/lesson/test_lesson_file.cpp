// A lesson's file says what it holds, and every mistake in it has a place.

#include "core/base/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/lesson/answers.hpp"

using namespace rehearse;

namespace {

Error refusal(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  try {
    (void)parse_lesson(text, "dir/lesson.json");
  } catch (const Error& e) {
    return e;
  }
  FAIL("accepted");
  return {ErrorKind::usage, ""};
}

}  // namespace

TEST_CASE("a lesson is called by its folder and finds its scenarios there") {
  const Lesson l = parse_lesson(test::kLesson, "some/funnel/lesson.json");
  CHECK(l.name == "funnel");
  CHECK(l.plans[1].file == "some/funnel/s.json");
  CHECK(l.plans[1].changes == std::vector<std::string>{"strategy.tp=2"});
  CHECK(l.pictures.size() == 3);
  CHECK(l.pictures[2].kind == PictureKind::bars);
  CHECK(parse_lesson(test::kLesson, "some/own.json").name == "own");
}

TEST_CASE("mistakes have a place and a suggestion") {
  CHECK(refusal(test::kLesson, "b.step_time / a.step_time", "c.step_time").where == "dir/lesson.json: /says/0");
  CHECK(refusal(test::kLesson, "b.step_time > a.step_time", "step_time > 1").where == "dir/lesson.json: /shows/0");
  CHECK(refusal(test::kLesson, "\"key\": \"b\"", "\"key\": \"a\"").where == "dir/lesson.json: /plans/1/key");
  CHECK(refusal(test::kLesson, "\"key\": \"b\"", "\"key\": \"B 2\"").where == "dir/lesson.json: /plans/1/key");
  CHECK(refusal(test::kLesson, "\"memory\"", "\"memry\"").hint.find("memory") != std::string::npos);
  CHECK(refusal(test::kLesson, "\"question\"", "\"quetsion\"").hint.find("question") != std::string::npos);
  CHECK(refusal(test::kLesson, "\"form\": \"count\"", "\"form\": \"cuont\"").hint.find("count") != std::string::npos);
}

TEST_CASE("a measurement needs a source, a claim does not") {
  const std::string with =
      R"("title": "T", "measurements": [{ "id": "m", "what": "w", "unit": "s", "measured": 2,
      "predicted": "a.step_time", "standing": "claim" }])";
  std::string text = test::kLesson;
  text.replace(text.find("\"title\": \"T\""), 12, with);
  CHECK(parse_lesson(text, "lesson.json").measurements[0].standing == Standing::claim);
  CHECK(refusal(text, "\"claim\" }]", "\"measured\" }]").where == "dir/lesson.json: /measurements/0");
  CHECK(refusal(text, "\"measured\": 2", "\"measured\": 0").where == "dir/lesson.json: /measurements/0/measured");
}

TEST_CASE("plans are all scenarios or all fleets, with pictures of their kind") {
  const std::string fleets = R"({ "schema": "rehearse/lesson/v1", "title": "T",
    "plans": [{ "key": "a", "title": "first", "fleet": "f.json" },
              { "key": "b", "title": "second", "fleet": "f.json", "set": ["policy.rule=easy"] }],
    "pictures": [{ "kind": "nodes" }, { "kind": "hours" }, { "kind": "bars", "figure": "wait.mean" }] })";
  const Lesson l = parse_lesson(fleets, "some/lesson.json");
  CHECK(l.plans[1].is_fleet);
  CHECK(l.plans[1].file == "some/f.json");
  CHECK(refusal(fleets, R"("fleet": "f.json", "set")", R"("scenario": "f.json", "set")").where ==
        "dir/lesson.json: /plans/1");
  CHECK(refusal(fleets, R"("kind": "hours")", R"("kind": "memory")").where == "dir/lesson.json: /pictures/1/kind");
  CHECK(refusal(fleets, R"("fleet": "f.json" })", R"("fleet": "f.json", "scenario": "s.json" })").where ==
        "dir/lesson.json: /plans/0/fleet");
  CHECK(refusal(test::kLesson, "\"memory\"", "\"nodes\"").where == "dir/lesson.json: /pictures/1/kind");
}
