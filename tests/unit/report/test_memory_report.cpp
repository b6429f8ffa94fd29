// Peak memory against capacity.

#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/report/formats/format.hpp"
#include "core/report/results/memory_report.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/report/plans.hpp"

using namespace rehearse;

namespace {

MemoryReport two_stages(double first_gb, double second_gb) {
  MemoryReport report;
  for (const double gb : {first_gb, second_gb}) {
    StageMemory s;
    s.stage = static_cast<int>(report.stages.size());
    nth(s.memory.by_category, MemoryCategory::weights) = Bytes{gb * 1e9 - 3e9};
    nth(s.memory.by_category, MemoryCategory::framework) = Bytes{3e9};
    s.memory.peak = Bytes{gb * 1e9};
    s.memory.peak_at = "layer.backward";
    s.needed = report.rule.needed(s.memory);
    s.capacity = Bytes{80e9};
    report.stages.push_back(s);
  }
  return report;
}

}  // namespace

TEST_CASE("the allocator's reserve applies to what it allocates, not to the CUDA context", "[memory]") {
  const MemoryReport report = two_stages(53, 40);
  CHECK(report.stages[0].needed.value() == Approx(50e9 * 1.055 + 3e9));
  CHECK(report.fits());
  CHECK(report.tightest().stage == 0);
}

TEST_CASE("a plan that fits within three percent of the capacity says so", "[memory]") {
  CHECK_FALSE(two_stages(60, 60).tightest().barely());
  CHECK(two_stages(60, 75).tightest().barely());
  CHECK_FALSE(two_stages(60, 79).tightest().barely());  // It does not fit at all.
}

TEST_CASE("a plan fits only if every stage does", "[memory]") {
  CHECK_FALSE(two_stages(40, 79).fits());
  CHECK(two_stages(40, 79).tightest().stage == 1);
}

TEST_CASE("the words name the stage that is over and what would help", "[memory]") {
  MemoryReport report = two_stages(40, 79);
  report.suggestion = Suggestion{{"strategy.tp=8", "strategy.dp=2"}, Bytes{60e9}, Seconds{2}};
  Document d;
  d.blocks = memory_blocks(report);
  const std::string text = formats().at("table").value(d, {200, false});
  CHECK(text.find("stage 1 needs") != std::string::npos);
  CHECK(text.find("--set strategy.tp=8 --set strategy.dp=2") != std::string::npos);
  CHECK(text.find("OVER") != std::string::npos);
  CHECK(suggestion_json(report).at("needed_bytes") == 60000000000);
}

TEST_CASE("categories add up to the peak of every stage of a real plan", "[memory]") {
  const Cluster cluster = test::one_machine();
  const MemoryReport report = memory_report(lower(test::tiny_workload(), test::eight_gpus(), cluster), cluster, {});
  REQUIRE(report.stages.size() == 2);
  const nlohmann::ordered_json json = memory_json(report);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(report.stages[i].stage == static_cast<int>(i));
    CHECK(report.stages[i].capacity == cluster.gpu(0).usable_memory);
    std::int64_t sum = 0;
    for (const auto& [category, bytes] : json[i].at("by_category").items()) sum += bytes.get<std::int64_t>();
    CHECK(sum == json[i].at("peak_bytes").get<std::int64_t>());
  }
  CHECK(memory_records(report).rows.size() == 2);
}

TEST_CASE("a node's ranks share its host memory", "[memory]") {
  // Adam's state and master copy, and the gradient's copy, of four stages' halves on one node.
  Workload w = test::tiny_workload();
  StrategySettings s = test::eight_gpus();
  s.offload = Offload::optimizer;
  const Cluster cluster = test::one_machine();
  MemoryReport report = memory_report(lower(w, s, cluster), cluster, {});
  const double on_rank =
      memory_json(report)[0].at("host_bytes").get<double>() + memory_json(report)[1].at("host_bytes").get<double>();
  CHECK(report.stages[0].host_needed.value() == Approx(4 * on_rank));  // dp 2 x tp 2 of each of two stages.
  CHECK(report.stages[0].host_capacity == Bytes{2e12});
  CHECK(report.fits());
  report.stages[0].host_capacity = report.stages[0].host_needed * 0.5;
  CHECK_FALSE(report.fits());
  Document d;
  d.blocks = memory_blocks(report);
  CHECK(formats().at("table").value(d, {200, false}).find("of host memory") != std::string::npos);
  report.stages[0].host_capacity = Bytes{0};  // Not stated: nothing to hold it against.
  CHECK(report.fits());
}
