// A plan read as a scenario, and the commands under an answer.

#include "core/base/error.hpp"
#include "core/plan/plan_scenario.hpp"
#include "core/search/space.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

namespace {

const char* const kText = R"({
  "schema": "rehearse/plan/v1", "model": "llama3_8b",
  "training": {"global_batch": 256, "tokens": "20e9"}, "strategy": {"microbatch": 1},
  "deadline_days": 14,
  "candidates": [{"cluster": "old_ones"}, {"machine": "dgx_h100", "network": "superpod_h100"},
                 {"machine": "my boxes/one.json"}]
})";

PlanPoint point(int machines) {
  PlanPoint out;
  out.machines = machines;
  out.step.global_batch = 252;
  out.step.strategy.tp = 2;
  out.step.strategy.dp = out.step.strategy.dp_replicate = 12;
  out.step.strategy.zero_stage = 1;
  return out;
}

}  // namespace

TEST_CASE("a plan's file is a scenario on one machine of its first candidate that names one") {
  const Scenario s = plan_scenario(kText, "plan.json");
  CHECK(s.model.name == "llama3_8b");
  REQUIRE(s.cluster.parts.size() == 1);
  CHECK(s.cluster.parts.front().machine == "dgx_h100");
  CHECK(s.cluster.parts.front().nodes == 1);
  CHECK(s.cluster.network.empty());
  CHECK(s.training.global_batch == 256);
  CHECK(s.stated.contains("strategy.microbatch"));
  CHECK_FALSE(s.stated.contains("strategy.tp"));
}

TEST_CASE("what was chosen for a candidate comes back from the file and the overrides of its size") {
  const Plan plan = parse_plan(kText, "plan.json");
  const Scenario s = plan_scenario(kText, "plan.json", point_overrides(plan, plan.candidates[1], point(3)));
  CHECK(s.cluster.parts.front().nodes == 3);
  CHECK(s.cluster.network == "superpod_h100");
  CHECK(s.training.global_batch == 252);
  CHECK(setting_texts(s.strategy) == setting_texts(point(3).step.strategy));
  const Scenario set = plan_scenario(kText, "plan.json", point_overrides(plan, plan.candidates[0], point(3)));
  CHECK(set.cluster.name == "old_ones");
}

TEST_CASE("a plan that is wrong is refused as a plan") {
  CHECK_THROWS_AS(plan_scenario(R"({"schema": "rehearse/plan/v1", "model": "llama3_8b"})", "plan.json"), Error);
}

TEST_CASE("of a plan's overrides a scenario takes those that it has, too") {
  CHECK(scenario_overrides(
            {"deadline_days=3", "training.tokens=1e9", "plan.kernels.flash=2", "economics.pue=1.1", "model=gpt2"}) ==
        std::vector<std::string>{"training.tokens=1e9", "kernels.flash=2", "model=gpt2"});
}

TEST_CASE("words that a shell reads otherwise are quoted") {
  CHECK(command_line({"simulate", "plans/a.json"}, {"cluster.nodes=3", "strategy.placement=tp,dp"}) ==
        "rehearse simulate plans/a.json --set cluster.nodes=3 --set strategy.placement=tp,dp");
  CHECK(command_line({"simulate", "my plan.json"}, {"cluster.machine=it's/one.json"}) ==
        "rehearse simulate 'my plan.json' --set 'cluster.machine=it'\\''s/one.json'");
}

TEST_CASE("a plan that leaves less than three hundredths of the memory is nearly full") {
  StepChoice step;
  step.capacity = Bytes{100e9};
  step.needed = Bytes{96.9e9};
  CHECK_FALSE(step.nearly_full());
  step.needed = Bytes{97.1e9};
  CHECK(step.nearly_full());
}
