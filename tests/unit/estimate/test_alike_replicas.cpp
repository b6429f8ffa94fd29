// Replicas that are taken to be alike by symmetry take as long as when each of them is looked at.

#include "tests/support/catch.hpp"
#include "tests/unit/estimate/plan_draws.hpp"

using namespace rehearse;
using namespace rehearse::test;

TEST_CASE("replicas that are alike by symmetry are estimated as if each were looked at") {
  CostModel::Options told_apart;
  told_apart.slowdown = {{0, 1.0}};  // Not slower at all, but the walk then has to look at every rank.
  const auto symmetric = make_site("dgx_h100", 8, "rail_ndr");
  const auto one_by_one = make_site("dgx_h100", 8, "rail_ndr", told_apart);
  for (const std::string scenario : {"llama3_8b_fsdp_h100_64", "mixtral_8x7b_h100_64"}) {
    const ScenarioJob from = load_job(kSource + "/scenarios/" + scenario + ".json");
    std::mt19937_64 random(21);
    for (int left = draws(10); left > 0;) {
      const DrawnPlan d = draw_plan(from, random, 2e4);
      // Lanes of a tensor-parallel group are priced together, and the busiest rank of a ring stands for all, only where
      // no rank is told apart.
      if (d.strategy.tp > 1 || d.strategy.cp > 1) continue;
      --left;
      const int steps = steps_in_period(d.strategy, d.workload.input);
      INFO(scenario << ": " << plan_label(d.strategy) << " m=" << d.program->microbatches);
      const Estimate few = estimate(*d.program, symmetric->cost, d.strategy, steps);
      const Estimate all = estimate(*d.program, one_by_one->cost, d.strategy, steps);
      CHECK(few.step_time.value() == Approx(all.step_time.value()).epsilon(1e-9));
      CHECK(few.slowest_role == all.slowest_role);
    }
  }
}
