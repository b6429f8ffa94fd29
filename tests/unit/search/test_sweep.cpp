#include <set>

#include "core/base/error.hpp"
#include "core/report/results/sweep_report.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

TEST_CASE("keys may be short, values may hold commas in brackets") {
  const Vary tp = parse_vary("tp=1,2,4");
  CHECK(tp.key == "strategy.tp");
  CHECK(tp.values == std::vector<std::string>{"1", "2", "4"});
  CHECK(parse_vary("global_batch=8").key == "training.global_batch");
  CHECK(parse_vary("tp=2,4,2").values == std::vector<std::string>{"2", "4"});
  CHECK(parse_vary("strategy.placement=[tp,dp,pp],[dp,tp,pp]").values ==
        std::vector<std::string>{"tp,dp,pp", "dp,tp,pp"});
}

TEST_CASE("what cannot be varied is told with the key that was meant") {
  CHECK_THROWS_AS(parse_vary("tp"), Error);
  CHECK_THROWS_AS(parse_vary("=1"), Error);
  CHECK_THROWS_AS(parse_vary("tp=1,,2"), Error);
  try {
    (void)parse_vary("strategy.micobatch=1,2");
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK((std::string(e.what()) + e.hint).find("strategy.microbatch") != std::string::npos);
  }
}

TEST_CASE("a key is varied once, under whatever name") {
  const std::vector<std::string> twice{"tp=2,4", "strategy.tp=8"}, apart{"tp=2,4", "pp=8"};
  CHECK_THROWS_AS(parse_vary(twice), Error);
  CHECK(parse_vary(apart).size() == 2);
}

TEST_CASE("the fastest point does the most in a second, not the least in a step") {
  SweepReport report;
  report.scenario_json = "{}";
  report.vary = {{"training.global_batch", {"8", "64"}}};
  for (std::size_t i = 0; i < 2; ++i) {
    SweepPoint p;
    p.values = sweep_values(report.vary, i);
    p.figures.peak = FlopsPerSecond{1e12};
    p.figures.samples_per_step = i == 0 ? 8 : 64;
    p.figures.samples = "images";
    p.evaluation.fits = true;
    p.evaluation.step_time = Seconds{i == 0 ? 1.0 : 4.0};  // 8 and 16 images a second.
    report.numbers.push_back(i);
    report.points.push_back(p);
  }
  const Document document = sweep_document(report);
  const auto& said = std::get<Paragraph>(document.blocks.back()).text;
  CHECK(said.starts_with("Fastest: training.global_batch=64: 16 images/s"));
  const auto& table = std::get<Table>(document.blocks[1]);
  CHECK(table.bars == std::vector<double>{0.5, 1.0});
}

TEST_CASE("points are all combinations once, the first key slowest") {
  const std::vector<Vary> vary{{"a", {"1", "2"}}, {"b", {"x", "y", "z"}}};
  REQUIRE(sweep_size(vary) == 6);
  CHECK(sweep_values(vary, 0) == std::vector<std::string>{"1", "x"});
  CHECK(sweep_values(vary, 2) == std::vector<std::string>{"1", "z"});
  CHECK(sweep_values(vary, 3) == std::vector<std::string>{"2", "x"});
  std::set<std::vector<std::string>> seen;
  for (std::size_t i = 0; i < 6; ++i) seen.insert(sweep_values(vary, i));
  CHECK(seen.size() == 6);
  CHECK_THROWS_AS(sweep_size(std::vector<Vary>(9, {"a", {"1", "2", "3", "4", "5", "6", "7", "8", "9"}})), Error);
}

TEST_CASE("parts must be one of each, and all of them") {
  CHECK_NOTHROW(check_shards({{"a", {1, 2}}, {"b", {0, 2}}}));
  CHECK_THROWS_AS(check_shards({{"a", {0, 2}}, {"b", {0, 2}}}), Error);
  CHECK_THROWS_AS(check_shards({{"a", {0, 2}}, {"b", {1, 3}}}), Error);
  CHECK_THROWS_AS(check_shards({{"a", {0, 3}}, {"b", {2, 3}}}), Error);
}

TEST_CASE("merged parts of a sweep are the sweep") {
  SweepReport whole;
  whole.scenario = "tiny";
  whole.scenario_json = R"({"schema": "rehearse/scenario/v1"})";
  whole.vary = {{"strategy.tp", {"1", "2", "3"}}};
  for (std::size_t i = 0; i < 3; ++i) {
    SweepPoint p;
    p.values = sweep_values(whole.vary, i);
    p.figures.peak = FlopsPerSecond{1e12};
    p.evaluation.fits = i != 2;
    p.evaluation.refusal = i == 2 ? "tp(3) does not divide 8 GPUs" : "";
    p.evaluation.step_time = Seconds{2.0 - static_cast<double>(i)};
    whole.numbers.push_back(i);
    whole.points.push_back(p);
  }
  std::vector<std::pair<std::string, std::string>> parts;
  for (int s = 0; s < 2; ++s) {
    SweepReport part = whole;
    part.shard = {s, 2};
    part.numbers.clear();
    part.points.clear();
    for (std::size_t i = static_cast<std::size_t>(s); i < 3; i += 2) {
      part.numbers.push_back(i);
      part.points.push_back(whole.points[i]);
    }
    parts.emplace_back("part" + std::to_string(s), sweep_document(part).json);
  }
  CHECK(merged_sweep(parts).json == sweep_document(whole).json);
  parts.pop_back();
  CHECK_THROWS_AS(merged_sweep(parts), Error);
  CHECK_THROWS_AS(merged_sweep({{"x", "{\"schema\": \"rehearse/sweep/v1\"}"}}), Error);
}
