#include "core/config/settings/strategy.hpp"
#include "core/search/bounds/bounds.hpp"
#include "core/search/bounds/relaxation.hpp"
#include "core/search/bounds/steady_step.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/search/jobs.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

/// Holds bounds against evaluations of plans spread over the space; returns how near the nearest bound comes.
double nearest_bound(const SearchJob& job, std::size_t most) {
  const SearchProblem problem = job.problem();
  const Space space = listed_space(problem);
  const std::vector<Space::Plan> plans = space.plans();
  const std::size_t step = std::max<std::size_t>(1, plans.size() / most);
  const Seconds at_peak = step_at_peak(problem);
  CHECK(at_peak > Seconds{0});
  double nearest = 0;
  for (std::size_t i = step / 2; i < plans.size(); i += step) {
    const StrategySettings s = space.settings(plans[i]);
    const Evaluation e = evaluate(problem, s);
    if (!e.refusal.empty()) continue;
    const Bound least = bound(pass_costs(problem, s), s, problem.workload.training.global_batch);
    INFO(job.job.name << " " << plan_label(s) << ": memory " << least.memory.value() << " <= " << e.needed.value()
                      << ", time " << least.step_time.value() << " <= " << e.step_time.value());
    CHECK(least.memory <= e.needed);
    if (!e.fits) continue;
    CHECK(least.step_time <= e.step_time);
    if (s.declared == DeclaredSettings{}) CHECK(least.proven > Seconds{0});  // Others need not be bounded.
    CHECK(least.proven <= e.step_time);
    CHECK(at_peak <= e.step_time);
    // As a tally bounds schedules that split their passes.
    StrategySettings plain = s;
    plain.schedule = "1f1b";
    plain.virtual_stages = 1;
    CHECK(proven_step(pass_costs(problem, plain), s, problem.workload.training.global_batch) <= e.step_time);
    nearest = std::max(nearest, least.step_time / e.step_time);
  }
  return nearest;
}

}  // namespace

TEST_CASE("no plan is faster or smaller than its bounds") {
  CHECK(nearest_bound(SearchJob("gpt2_xl", "dgx_a100_80gb", 1, 16, 1024), 40) > 0.7);
  CHECK(nearest_bound(SearchJob("llama3_8b", "dgx_h100", 2, 32, 4096), 30) > 0.7);
  // What the host adds to layers of experts is in no bound, and is most of what a tiny model takes.
  CHECK(nearest_bound(SearchJob("mixtral_8x7b", "dgx_h100", 2, 32, 4096), 20) > 0.1);
  CHECK(nearest_bound(SearchJob("tiny_mixtral", "dgx_h100", 1, 16, 64), 60) > 0.02);
}

TEST_CASE("no plan of GPT-3 on 1,024 GPUs is faster or smaller than its bounds") {
  CHECK(nearest_bound(SearchJob("gpt3_175b_a100_1024"), 20) > 0.7);
}

TEST_CASE("no plan is faster or smaller than its plain sibling allows") {
  // No number of stages that 384 GPUs give divides the 70 layers of BLOOM.
  const SearchJob gpt2("gpt2_xl", "dgx_a100_80gb", 1, 16, 1024), llama("llama3_8b", "dgx_h100", 2, 32, 4096),
      experts("tiny_mixtral", "dgx_h100", 1, 16, 64), bloom("bloom_176b_a100_384");
  for (const SearchJob* job : {&gpt2, &llama, &experts, &bloom}) {
    const SearchProblem problem = job->problem();
    const Space space = listed_space(problem);
    const std::vector<Space::Plan> plans = space.plans();
    QuickEvaluator quick(problem, {});
    PlanTraffic traffic(problem);
    const std::size_t step = std::max<std::size_t>(1, plans.size() / 150);
    int held = 0, unequal = 0;
    double nearest = 0;
    for (std::size_t i = step / 3; i < plans.size(); i += step) {
      const StrategySettings s = space.settings(plans[i]);
      const Relaxed r = relaxed(quick, problem, relaxed_settings(s));
      if (!r.known) continue;
      const Evaluation e = evaluate(problem, s);
      if (!e.refusal.empty()) continue;
      const Bound least = bound(r, traffic, s);
      INFO(job->job.name << " " << plan_label(s) << ": memory " << least.memory.value() << " <= " << e.needed.value()
                         << ", time " << least.step_time.value() << " <= " << e.step_time.value());
      CHECK(least.memory <= e.needed);
      if (!e.fits) continue;
      CHECK(least.step_time <= e.step_time);
      ++held;
      unequal += problem.workload.network.layers() % (s.pp * s.virtual_stages) != 0;
      nearest = std::max(nearest, least.step_time / e.step_time);
    }
    CHECK(held > 5);
    CHECK(nearest > 0.9);
    CHECK((job != &bloom || unequal > 5));
  }
}

TEST_CASE("the steady step of a schedule that splits backward is near what its plans take") {
  const SearchJob job("gpt2_xl", "dgx_a100_80gb", 1, 64, 1024);
  const SearchProblem problem = job.problem();
  StrategySettings s = job.job.strategy;
  s.dp = s.dp_replicate = 1;
  s.pp = 4;
  s.tp = 2;
  for (const auto& [schedule, chunks] : {std::pair("zb_h1", 1), std::pair("zb_v", 2), std::pair("dualpipe", 1)}) {
    s.schedule = schedule;
    s.virtual_stages = chunks;
    const Seconds least = least_step(steady_step(problem, s), {}, s, 64), step = evaluate(problem, s).step_time;
    INFO(schedule << ": " << least.value() << " of " << step.value());
    CHECK(least <= step);
    CHECK(least >= step * 0.85);
  }
  s.schedule = "1f1b";
  s.virtual_stages = 1;
  CHECK_FALSE(steady_step(problem, s).known);
}

TEST_CASE("a network of unequal blocks is not bounded") {
  const SearchJob job("resnet50_v100_8");
  CHECK_FALSE(pass_costs(job.problem(), job.job.strategy).known);
  CHECK(bound(PassCosts{}, job.job.strategy, 256).step_time == Seconds{0});
}
