// What a picture of a pipeline is made of: 1F1B with two stages and three microbatches, a forward pass 1 s, a backward
// pass 2 s.

#include <nlohmann/json.hpp>

#include "core/config/settings/strategy.hpp"
#include "core/report/html/gantt_data.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;
using nlohmann::json;

namespace {

Span pass(int rank, int microbatch, bool backward, double begin) {
  Span s;
  s.rank = rank;
  s.chunk = 5 * rank;
  s.microbatch = microbatch;
  s.backward = backward;
  s.begin = Seconds{begin};
  s.end = Seconds{begin + (backward ? 2 : 1)};
  return s;
}

Trace two_stages() {
  Trace trace({0, 1});
  trace.spans = {pass(0, 0, false, 0), pass(0, 1, false, 1), pass(0, 0, true, 4),  pass(0, 2, false, 6),
                 pass(0, 1, true, 7),  pass(0, 2, true, 10), pass(1, 0, false, 1), pass(1, 0, true, 2),
                 pass(1, 1, false, 4), pass(1, 1, true, 5),  pass(1, 2, false, 7), pass(1, 2, true, 8)};
  return trace;
}

json data(const Trace& trace, GanttDataOptions options = {}) {
  return json::parse(gantt_json({{&trace, {{"stage 0", 0}, {"stage 1", 1}}, Seconds{0}, Seconds{12}}}, options));
}

double drawn(const json& row, const json& gantt) {
  double sum = 0;
  for (std::size_t i = 0; i < row["spans"].size(); i += 5) sum += row["spans"][i + 1].get<double>();
  return sum * gantt["unit_s"].get<double>();
}

}  // namespace

TEST_CASE("a row's seconds are its passes, and idle is the schedule's bubble", "[gantt]") {
  const json gantt = data(two_stages());
  for (const json& row : gantt["rows"]) {
    CHECK(row["seconds"]["forward"] == 3.0);
    CHECK(row["seconds"]["backward"] == 6.0);
    CHECK(row["seconds"]["idle"] == 12.0 * (2 - 1) / (3 + 2 - 1));
  }
}

TEST_CASE("blocks cover the time of the passes, with their microbatch, and chunks count from 0 on each rank",
          "[gantt]") {
  const json gantt = data(two_stages()), row = gantt["rows"][1];
  REQUIRE(row["spans"].size() == 6 * 5);
  CHECK(drawn(row, gantt) == Approx(9));
  CHECK(row["spans"][3] == 0);
  CHECK(row["spans"][7] == 1);
  CHECK(row["spans"][4] == 0);
  CHECK(gantt["chunks"] == 1);
}

TEST_CASE("layers of one pass are one block", "[gantt]") {
  Trace trace({0});
  for (int layer = 0; layer < 10; ++layer) {
    Span s = pass(0, 0, false, 0.1 * layer);
    s.layer = layer;
    s.end = s.begin + Seconds{0.1};
    trace.spans.push_back(s);
  }
  CHECK(data(trace)["rows"][0]["spans"].size() == 5);
}

TEST_CASE("overlapping streams leave no less idle time than none", "[gantt]") {
  Trace trace = two_stages();
  for (Span s : two_stages().spans) {
    s.stream = 1;
    trace.spans.push_back(s);
  }
  CHECK(data(trace)["rows"][0]["seconds"]["idle"] == 3.0);
}

TEST_CASE("a long step is thinned to what was allowed, its seconds stay exact", "[gantt]") {
  Trace trace({0});
  constexpr int kPasses = 60000;
  for (int i = 0; i < kPasses; ++i) {
    Span s = pass(0, i, i % 2 == 1, 12.0 * i / kPasses);
    s.end = s.begin + Seconds{12.0 / kPasses};
    trace.spans.push_back(s);
  }
  const json gantt = data(trace, {2000});
  CHECK(gantt["thinned"] == true);
  CHECK(gantt["rows"][0]["spans"].size() <= 5 * 2000);
  CHECK(gantt["rows"][0]["seconds"]["forward"].get<double>() == Approx(6));
  CHECK(drawn(gantt["rows"][0], gantt) == Approx(12).epsilon(0.02));
}

TEST_CASE("thinned, a slice shows what filled most of it", "[gantt]") {
  Trace trace({0});
  constexpr int kPasses = 40000;
  for (int i = 0; i < kPasses; ++i) {  // Backward takes three times as long, but the idle second half stays idle.
    Span s = pass(0, i / 2, i % 2 == 1, 6.0 * (i / 2) / (kPasses / 2) + (i % 2 == 1 ? 0.25 * 6.0 / (kPasses / 2) : 0));
    s.end = s.begin + Seconds{(i % 2 == 1 ? 0.75 : 0.25) * 6.0 / (kPasses / 2)};
    trace.spans.push_back(s);
  }
  const json gantt = data(trace, {500}), row = gantt["rows"][0];
  for (std::size_t i = 0; i < row["spans"].size(); i += 5) {
    CHECK(row["spans"][i + 2] == 1);
    CHECK(row["spans"][i].get<double>() + row["spans"][i + 1].get<double>() <= 500100);
  }
  CHECK(row["seconds"]["idle"].get<double>() == Approx(6));
}

TEST_CASE("simulated and measured rows of a rank stand under each other, on one clock", "[gantt]") {
  const Trace trace = two_stages();
  const json gantt =
      json::parse(gantt_json({{&trace, {{"simulated 0", 0}, {"simulated 1", 1}}, Seconds{0}, Seconds{12}},
                              {&trace, {{"measured 0", 0}, {"measured 1", 1}}, Seconds{0}, Seconds{24}}}));
  CHECK(gantt["period_s"] == 24.0);
  CHECK(gantt["rows"][0]["label"] == "simulated 0");
  CHECK(gantt["rows"][0]["period_s"] == 12.0);  // Idle is a share of the row's own step.
  CHECK(gantt["rows"][0]["seconds"]["idle"] == 3.0);
  CHECK(gantt["rows"][1]["period_s"] == 24.0);
  CHECK(gantt["rows"][1]["label"] == "measured 0");
  CHECK(gantt["rows"][2]["label"] == "simulated 1");
}
