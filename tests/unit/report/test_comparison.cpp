#include "core/report/results/comparison.hpp"

#include <nlohmann/json.hpp>

#include "tests/support/catch.hpp"

namespace rehearse {
namespace {

ComparedStep step(const std::string& name, double matmul, double bubble, double samples = 8) {
  ComparedStep s;
  s.name = name;
  s.plan = {"tiny", 1e6, 8, "one machine", "dp 8", 1};
  s.needed = Bytes{30e9};
  s.capacity = Bytes{80e9};
  s.breakdown[TimeCategory::matmul] = Seconds{matmul};
  s.breakdown[TimeCategory::bubble] = Seconds{bubble};
  s.metrics.step_time = s.modelled = s.breakdown.total();
  s.metrics.samples_per_s = samples / s.metrics.step_time.value();
  return s;
}

ComparedStep too_large(const std::string& name) {
  ComparedStep s;
  s.name = name;
  s.fits = false;
  s.needed = Bytes{90e9};
  s.capacity = Bytes{80e9};
  return s;
}

std::string sentences(const std::vector<ComparedStep>& steps) {
  std::string out;
  for (const DocumentBlock& block : comparison_document(steps).blocks)
    if (const auto* p = std::get_if<Paragraph>(&block)) out += p->text + "\n";
  return out;
}

TEST_CASE("differences by category add up to the difference of the step times") {
  const Breakdown d = difference(step("a", 1.5, 0.25).breakdown, step("b", 1.0, 2.0).breakdown);
  CHECK(d[TimeCategory::matmul] == Seconds{-0.5});
  CHECK(d[TimeCategory::bubble] == Seconds{1.75});
  CHECK(d.total() == Seconds{1.25});
}

TEST_CASE("the sentence names the reasons, largest first") {
  const std::string text = sentences({step("a", 1.0, 0.0), step("b", 0.9, 0.6)});
  CHECK(text.find("B takes 1.5 times as long as A: +500 ms, of which +600 ms bubble (waiting for others), -100 ms "
                  "matrix products.") != std::string::npos);
}

TEST_CASE("steps of unlike work are also compared per sample") {
  const std::string text = sentences({step("a", 1.0, 0.0, 8), step("b", 2.0, 0.0, 32)});
  CHECK(text.find("Its step is 4 times the work; per sample it takes 0.5 times as long.") != std::string::npos);
}

TEST_CASE("of plans of one job it is said how likely their order is, per sample") {
  const auto with_range = [](ComparedStep s, double apart, const char* model = "tiny") {
    s.range.rows = 40, s.range.apart = apart, s.plan.model = model;
    return s;
  };
  const ComparedStep a = with_range(step("a", 1.0, 0.0), 1.2), b = with_range(step("b", 2.4, 0.0, 16), 1.2);
  const auto odds = [](const ComparedStep& x, const ComparedStep& y) {
    return nlohmann::json::parse(comparison_document({x, y}).json)["differences"][0].value("odds", 0.0);
  };
  CHECK(odds(a, b) == Approx(0.9));  // They differ by as much as 8 of 10 such pairs, either way.
  CHECK(sentences({a, b}).find("of 100 such pairs B should be measured slower in about 90.") != std::string::npos);
  CHECK(sentences({b, a}).find("of 100 such pairs B should be measured faster in about 90.") != std::string::npos);
  CHECK(odds(with_range(a, 1.05), with_range(b, 1.05)) > 0.99);
  CHECK(odds(a, with_range(step("b", 2.0, 0.0, 16), 1.2)) == Approx(0.5));
  CHECK(odds(a, with_range(b, 1.2, "other")) == 0);
  CHECK(sentences({a, step("b", 2.4, 0.0, 16)}).find("Predictions err") == std::string::npos);
}

TEST_CASE("equal plans are said to be equal") {
  CHECK(sentences({step("a", 1.0, 0.5), step("b", 1.0, 0.5)}).find("B takes as long as A.") != std::string::npos);
}

TEST_CASE("a plan that does not fit has no times, and the first that fits is the base") {
  const Document document = comparison_document({too_large("a"), step("b", 1.0, 0.0), step("c", 2.0, 0.0)});
  const auto json = nlohmann::json::parse(document.json);
  CHECK(json["steps"][0]["fits"] == false);
  CHECK_FALSE(json["steps"][0].contains("step_time_s"));
  REQUIRE(json["differences"].size() == 1);
  CHECK(json["differences"][0]["against"] == "b");
  CHECK(json["differences"][0]["ratio"] == 2.0);
  CHECK(document.records.rows.size() == 3);
  CHECK(document.records.rows[0][4].empty());
}

TEST_CASE("a stored result is read back") {
  const std::string text =
      R"({"schema": "rehearse/result/v1", "fits": true, "step_time_s": 2.5, "samples_per_s": 4, "tokens_per_s": 0,
      "mfu": 0.5,
    "memory": [{"needed_bytes": 10, "capacity_bytes": 80}, {"needed_bytes": 70, "capacity_bytes": 80}],
    "breakdown": {"matmul": 2.0, "bubble": 0.5}})";
  const ComparedStep s = read_result(text, "old.json");
  CHECK(s.metrics.step_time == Seconds{2.5});
  CHECK(s.needed == Bytes{70});
  CHECK(s.breakdown[TimeCategory::bubble] == Seconds{0.5});
  try {
    (void)read_result(R"({"schema": "rehearse/result/v1", "fits": true, "memory": []})", "old.json");
    FAIL("a result without a time was read");
  } catch (const Error& e) {
    CHECK(e.where.find("old.json") != std::string::npos);
    CHECK(std::string(e.what()).find("step_time_s") != std::string::npos);
  }
}

}  // namespace
}  // namespace rehearse
