// Bounds, all together, against evaluations of plans drawn over whole spaces, in any order of their axes.

#include "core/config/settings/strategy.hpp"
#include "core/search/bounds/plan_bounds.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/search/jobs.hpp"

using namespace rehearse;
using namespace rehearse::test;

TEST_CASE("no plan is faster or smaller than all of its bounds, whatever it shards, moves and splits") {
  const SearchJob gpt2("gpt2_xl", "dgx_a100_80gb", 1, 16, 1024), shared_pcie("gpt2_xl", "pcie8_l40s_2sw", 2, 32, 1024),
      llama("llama3_8b", "dgx_h100", 2, 32, 4096), bloom("bloom_176b_a100_384");
  for (const SearchJob* job : {&gpt2, &shared_pcie, &llama, &bloom}) {
    const SearchProblem problem = job->problem();
    const Space space = listed_space(problem);
    const std::vector<Space::Plan> plans = space.plans();
    QuickEvaluators quick(problem, {});
    const SearchOptions options;
    const std::vector<Space::Plan> none;
    PlanBounds bounds(problem, options, space, none, quick);
    const std::size_t step = std::max<std::size_t>(1, plans.size() / (job == &bloom ? 60 : 150));
    int held = 0, steady = 0, moved = 0;
    for (std::size_t i = step / 4; i < plans.size(); i += step) {
      const auto orders = space.placements(plans[i]);
      StrategySettings s = space.settings(plans[i]);
      s.placement = orders[i % orders.size()];
      const Bound least = bounds.of_settings({s}).front();
      const Evaluation e = evaluate(problem, s);
      if (!e.refusal.empty()) continue;
      INFO(job->job.name << " " << plan_label(s) << ": memory " << least.memory.value() << " <= " << e.needed.value()
                         << ", time " << least.step_time.value() << " <= " << e.step_time.value());
      CHECK(least.memory <= e.needed);
      if (!e.fits) continue;
      CHECK(least.step_time <= e.step_time);
      CHECK(least.proven <= e.step_time);
      ++held;
      steady += has_steady_step(problem, s);
      moved += s.offload != Offload::none;
    }
    CHECK(held > 10);
    CHECK(steady > 1);
    CHECK(moved > 5);
  }
}
