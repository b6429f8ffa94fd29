#include <algorithm>

#include "core/report/results/explanation.hpp"
#include "core/report/results/search_report.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/search/jobs.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

Found plan(int tp, double matmul, double bubble, double gib) {
  Found f;
  f.order = static_cast<std::uint64_t>(tp);
  f.settings.tp = tp;
  f.evaluation.fits = true;
  f.evaluation.breakdown[TimeCategory::matmul] = Seconds{matmul};
  f.evaluation.breakdown[TimeCategory::bubble] = Seconds{bubble};
  f.evaluation.step_time = Seconds{matmul + bubble};
  f.evaluation.needed = Bytes{gib * 1024 * 1024 * 1024};
  f.evaluation.capacity = Bytes{80.0 * 1024 * 1024 * 1024};
  return f;
}

}  // namespace

TEST_CASE("a trade names categories that add up to the difference, and the memory") {
  const Found winner = plan(8, 10, 1, 60), other = plan(4, 9.5, 3, 50);
  CHECK(trade_text(winner, winner) == "the best");
  CHECK(trade_text(other, winner) ==
        "+1.5 s: +2 s bubble (waiting for others), -500 ms matrix products; 10 GiB less memory");
}

TEST_CASE("the reason compares the winner with the next and with the scenario's own plan") {
  SearchResult result;
  result.best = {plan(8, 10, 1, 60), plan(4, 9.5, 3, 50)};
  result.own = plan(2, 10, 12, 70);
  const std::string why = why_text(result, Objective::step_time);
  CHECK(why.find("takes 11 s a step and needs 60 GiB of 80 GiB") != std::string::npos);
  CHECK(why.find("Against the next, tp=4") != std::string::npos);
  CHECK(why.find("50 % less time (11 s instead of 22 s): -11 s bubble") != std::string::npos);
  result.own->evaluation.fits = false;
  CHECK(why_text(result, Objective::step_time).find("does not fit") != std::string::npos);
  CHECK(why_text(SearchResult{}, Objective::step_time) == "Nothing fits.");
}

TEST_CASE("a part of a search reads back as it was written") {
  const SearchJob job("tiny_gpt2", "dgx_a100_80gb", 1, 8, 64);
  const SearchProblem problem = job.problem();
  SearchReport report;
  report.scenario_json = R"({"schema": "rehearse/scenario/v1"})";
  report.figures.gpus = 8;
  report.figures.peak = FlopsPerSecond{1e15};
  report.shard = {1, 3};
  SearchOptions options;
  options.fixed = {"offload", "cp", "recompute"};
  options.shard = report.shard;
  report.result = search(problem, problem.own, options);
  const SearchPart part = read_search_part(search_document(report).json, "part.json");
  CHECK(part.report.shard.index == 1);
  CHECK(part.report.shard.count == 3);
  CHECK(part.report.result.evaluated == report.result.evaluated);
  REQUIRE(part.report.result.best.size() >= report.result.best.size());
  for (std::size_t i = 0; i < report.result.best.size(); ++i) {
    const Found &a = report.result.best[i], &b = part.report.result.best[i];
    CHECK(a.order == b.order);
    CHECK(a.evaluation.step_time == b.evaluation.step_time);
    CHECK(a.evaluation.breakdown.seconds == b.evaluation.breakdown.seconds);
    CHECK(std::count(part.overrides[i].begin(), part.overrides[i].end(),
                     "strategy.dp=" + std::to_string(a.settings.dp)) == 1);
    CHECK(part.overrides[i].size() == setting_texts(a.settings).size());
  }
  CHECK(part.front.size() == report.result.front.size());
  CHECK_THROWS_AS(read_search_part("{}", "empty.json"), Error);
  CHECK_THROWS_AS(read_search_part(R"({"schema": "rehearse/sweep/v1"})", "sweep.json"), Error);
}
