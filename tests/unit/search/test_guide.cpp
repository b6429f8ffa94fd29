// The guided search and what it walks over, on spaces small enough to be worked out whole.

#include <algorithm>
#include <set>

#include "core/search/guide.hpp"
#include "core/search/tally.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/search/jobs.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

/// Judges by evaluate(), and remembers.
struct Evaluating {
  const SearchProblem& problem;
  const Space& space;
  std::vector<Space::Plan> judged;
  double best = 1e30;

  std::vector<std::optional<Judged>> operator()(const std::vector<Space::Plan>& plans) {
    std::vector<std::optional<Judged>> out;
    for (const Space::Plan& p : plans) {
      const Evaluation e = evaluate(problem, space.settings(p));
      judged.push_back(p);
      out.emplace_back();
      if (!e.refusal.empty()) continue;
      out.back() = {e.fits, e.step_time.value(), e.needed / e.capacity};
      if (e.fits) best = std::min(best, e.step_time.value());
    }
    return out;
  }
};

int axes_that_differ(const StrategySettings& a, const StrategySettings& b) {
  return (a.dp != b.dp) + (a.tp != b.tp) + (a.pp != b.pp) + (a.cp != b.cp);
}

}  // namespace

TEST_CASE("a plan's neighbours are other plans, on meshes where one axis gave what another took") {
  const SearchJob job("tiny_mixtral", "dgx_a100_80gb", 1, 16, 64);
  const SearchProblem problem = job.problem();
  const Space space = listed_space(problem);
  const Moves moves(space, 8);
  const std::vector<Space::Plan> plans = space.plans();
  std::size_t legal = 0, seen = 0;
  for (std::size_t i = 0; i < plans.size(); i += std::max<std::size_t>(1, plans.size() / 20)) {
    std::set<std::uint64_t> numbers{plan_number(plans[i])};
    const StrategySettings here = space.settings(plans[i]);
    for (const Space::Plan& p : moves.around(plans[i])) {
      CHECK(numbers.insert(plan_number(p)).second);
      CHECK(plan_of_number(plan_number(p)) == p);
      const int apart = axes_that_differ(here, space.settings(p));
      CHECK((apart == 0 || apart == 2));
      ++seen;
      legal += space.legal(p);
    }
  }
  CHECK(seen > 100);
  CHECK(legal > seen / 2);
}

TEST_CASE("a guided search comes within a hundredth of the best of all plans, from a part of them") {
  for (const char* model : {"tiny_gpt2", "tiny_mixtral"}) {
    const SearchJob job(model, "dgx_a100_80gb", 1, 16, 64);
    const SearchProblem problem = job.problem();
    StrategySettings wanted = problem.own;
    Space space(problem.workload, wanted, problem.devices, {"offload", "cp", "sequence_parallel"});
    space.enumerate();
    Evaluating guided{problem, space, {}};
    Guide guide(space, 8, [&](const std::vector<Space::Plan>& plans) { return guided(plans); });
    guide.begin(space.find(problem.own), problem.own, [] { return false; });
    guide.run(kGuideIdle, [] { return false; });
    Evaluating whole{problem, space, {}};
    (void)whole(space.plans());
    INFO(model << ": " << guided.judged.size() << " of " << whole.judged.size() << " plans");
    CHECK(guided.best <= 1.01 * whole.best);
    CHECK(guided.judged.size() < whole.judged.size());
  }
}

TEST_CASE("where little fits a guided search finds it") {
  const SearchJob job("gpt2_xl", "dgx_a100_80gb", 1, 8, 512);
  const SearchProblem problem = job.problem();
  Space space(problem.workload, problem.own, problem.devices, {"offload", "cp"});
  Bytes least{1e30};
  Guide guide(space, 8, [&](const std::vector<Space::Plan>& plans) {
    std::vector<std::optional<Judged>> out;
    for (const Space::Plan& p : plans) {
      const Evaluation e = evaluate(problem, space.settings(p), Bytes{7e9});
      out.emplace_back();
      if (e.refusal.empty()) out.back() = {e.fits, e.step_time.value(), e.needed / Bytes{7e9}};
      if (e.refusal.empty()) least = min(least, e.needed);
    }
    return out;
  });
  guide.begin({}, problem.own, [] { return false; });
  guide.run(4, [] { return false; });
  CHECK(least <= Bytes{7e9});
}

TEST_CASE("a tally counts every legal plan once: priced, out of reach, or left") {
  const SearchJob job("tiny_mixtral", "dgx_a100_80gb", 1, 16, 64);
  const SearchProblem problem = job.problem();
  const Space space = listed_space(problem);
  const std::vector<Space::Plan> plans = space.plans();
  CHECK(space.legal() == plans.size());
  const std::vector<Space::Plan> priced(plans.begin(), plans.begin() + 10);
  const auto silent = [](const char*, double, double) {};
  const Tally all = tally(problem, {}, space, 1e30, priced, silent);
  CHECK(all.plans == plans.size());
  CHECK(all.bounded == 0);
  CHECK(all.left == plans.size() - 10);
  const Tally none = tally(problem, {}, space, 1e-9, priced, silent);
  CHECK(none.bounded + none.left == plans.size() - 10);
  CHECK(all.proven == 0);
  CHECK(none.proven > 0);
  CHECK(none.proven <= none.bounded);
  // What is bounded takes no less than its bound: the least of all is below every step.
  Evaluating some{problem, space, {}};
  (void)some({plans[plans.size() / 3], plans[plans.size() / 2]});
  CHECK(all.least_left.value() <= some.best);
}

TEST_CASE("a fixed value that no plan has is named, with the nearest that plans have") {
  const SearchJob job("tiny_gpt2", "dgx_a100_80gb", 1, 8, 64);
  StrategySettings wanted = job.job.strategy;
  wanted.tp = 3;
  try {
    Space(job.job.workload, wanted, 8, {"tp"});
    FAIL("was not refused");
  } catch (const Error& e) {
    CHECK(std::string(e.what()).find("no plan has tp 3") != std::string::npos);
    CHECK(e.hint.find("4, 2") != std::string::npos);
  }
}
