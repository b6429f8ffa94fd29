// The file of a task: what it must have, and predictions as people type them.
#include "core/base/error.hpp"
#include "core/lesson/task.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

namespace {

constexpr const char* kTask = R"({
  "schema": "rehearse/task/v1", "track": "memory", "place": 3, "title": "Fit", "question": "Make it fit.",
  "scenario": "../plan.json", "set": ["strategy.tp=1"],
  "predict": { "question": "How much?", "figure": "plan.needed / start.needed", "form": "percent" },
  "goals": [{ "claim": "it fits", "holds": "plan.fits" }],
  "may_change": ["strategy.zero_stage"],
  "hints": ["Look.", "Think.", "Set strategy.zero_stage=1."],
  "solution": ["strategy.zero_stage=1"], "wrong": ["strategy.zero_stage=0"],
  "says": ["It needs {plan.needed|gib}."]
})";

std::string with(const std::string& from, const std::string& to) {
  std::string out = kTask;
  const std::size_t at = out.find(from);
  REQUIRE(at != std::string::npos);
  return out.replace(at, from.size(), to);
}

std::string refused_at(const std::string& text) {
  try {
    (void)parse_task(text, "dir/memory/fit.json");
  } catch (const Error& e) {
    return e.where;
  }
  return "accepted";
}

TaskAttempt attempted(std::vector<std::string> changes, double fits) {
  TaskAttempt out{std::move(changes), {}};
  for (const char* key : {"start", "plan"})
    out.answers.push_back({key, "", {}, {{"fits", key == std::string("plan") ? fits : 0}}, nullptr});
  return out;
}

}  // namespace

TEST_CASE("a task is named by its file, and its scenario found beside it") {
  const LessonTask task = parse_task(kTask, "dir/memory/fit.json");
  CHECK(task.name == "fit");
  CHECK(task.scenario == "dir/plan.json");
  CHECK(task.prediction->form == "percent");
}

TEST_CASE("a task says how it is solved, within what may be changed, and hints lead there") {
  CHECK(refused_at(kTask) == "accepted");
  CHECK(refused_at(with(R"("plan.fits")", R"("other.fits")")) == "dir/memory/fit.json: /goals/0");
  CHECK(refused_at(with(R"(["strategy.zero_stage"])", R"(["strategy.tp"])")) == "dir/memory/fit.json: /solution");
  CHECK(refused_at(with("Set strategy.zero_stage=1.", "Set it.")) == "dir/memory/fit.json: /hints");
  CHECK(refused_at(with(R"("Think.", )", "")) == "dir/memory/fit.json: /hints");
  CHECK(refused_at(with(R"("memory")", R"("memories")")) == "dir/memory/fit.json: /track");
  CHECK(refused_at(with(R"("place": 3)", R"("place": 0)")) == "dir/memory/fit.json: /place");
  CHECK(refused_at(with(R"("wrong")", R"("wrongs")")) != "accepted");
}

TEST_CASE("goals and the approach together solve a task") {
  const LessonTask task = parse_task(kTask, "dir/memory/fit.json");
  CHECK(solves(task, attempted({"strategy.zero_stage=1"}, 1)));
  CHECK_FALSE(solves(task, attempted({"strategy.zero_stage=1"}, 0)));
  CHECK_FALSE(solves(task, attempted({"strategy.zero_stage=1", "strategy.tp=2"}, 1)));
  CHECK(beyond_approach(task, attempted({"strategy.tp=2"}, 1)) == std::vector<std::string>{"strategy.tp"});
}

TEST_CASE("predictions are read in their unit") {
  CHECK(parse_figure("1.5s", "time") == 1.5);
  CHECK(parse_figure("2GiB", "gib") == 2.0 * 1024 * 1024 * 1024);
  CHECK(parse_figure("35%", "percent") == 0.35);
  CHECK(parse_figure("35 %", "percent") == 0.35);
  CHECK(parse_figure("1.2", "times") == 1.2);
  CHECK(parse_figure("1.2x", "times") == 1.2);
  CHECK(parse_figure("1.2 times", "times") == 1.2);
  CHECK_THROWS_AS(parse_figure("1.2", "time"), Error);
  CHECK_THROWS_AS(parse_figure("35%", "number"), Error);
  CHECK_THROWS_AS(parse_figure("many", "count"), Error);
}
