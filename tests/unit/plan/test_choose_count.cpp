#include <algorithm>

#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"
#include "tests/unit/plan/support.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

constexpr double kSteps = 1e12 / (512 * 4096.0);

/// Step time on one machine such that `machines` need exactly `days`.
double work_for(double machines, double days) { return machines * days * kDay / kSteps; }

}  // namespace

TEST_CASE("days are tokens over throughput over goodput") {
  Plan plan = calm_plan();
  plan.reliability = {};
  CandidateSite s = site(even(100));
  s.reliability = load_reliability(rehearse::testing::source_path("topologies/reliability"), "hopper");
  const CandidateAnswer a = answer_candidate(plan, s);
  REQUIRE(a.point);
  const PlanPoint& p = *a.point;
  const double tokens_per_second =
      static_cast<double>(p.step.global_batch) * s.tokens_per_sequence / p.step.step_time.value();
  CHECK(p.duration.value() == Approx(1e12 / tokens_per_second / p.goodput.total));
  CHECK(p.goodput.total < 1);
  CHECK(p.gpus == 8 * p.machines);
}

TEST_CASE("the fewest machines in time are found, whatever their number") {
  const Plan plan = calm_plan();
  for (const double machines : {0.3, 1.0, 2.0, 7.5, 40.0, 41.01, 733.0}) {
    CandidateSite s = site(even(work_for(machines, 29.999)));
    const CandidateAnswer a = answer_candidate(plan, s);
    REQUIRE(a.point);
    INFO(machines);
    CHECK(a.meets_deadline);
    CHECK(a.point->machines == static_cast<int>(std::ceil(machines * 29.999 / 30)));
    CHECK(a.why_not.empty());
  }
}

TEST_CASE("sizes that cannot run are passed over") {
  const double work = work_for(100, 30);
  // Only multiples of 16 run; 112 is the first in time.
  CandidateSite s = site([work](int n) { return n % 16 == 0 ? work / n : 0; });
  const CandidateAnswer a = answer_candidate(calm_plan(), s);
  REQUIRE(a.point);
  CHECK(a.point->machines == 112);
}

TEST_CASE("a smaller size that divides better is preferred to a larger one") {
  const double work = work_for(100, 29.99);
  // Even sizes are 1.5 % faster per machine than odd ones.
  CandidateSite s = site([work](int n) { return work / n * (n % 2 == 0 ? 0.985 : 1.0); });
  const CandidateAnswer a = answer_candidate(calm_plan(), s);
  REQUIRE(a.point);
  CHECK(a.point->machines == 100);
}

TEST_CASE("a deadline out of reach is said with the size and the limit") {
  Plan plan = calm_plan();
  plan.max_gpus = 80;
  CandidateSite s = site(even(work_for(100, 30)));
  const CandidateAnswer a = answer_candidate(plan, s);
  REQUIRE(a.point);
  CHECK(!a.meets_deadline);
  CHECK(a.point->machines == 10);
  CHECK(a.why_not.find("300.0 days") != std::string::npos);
  CHECK(a.why_not.find("max_gpus") != std::string::npos);

  s.facts.most = 4;
  CHECK(answer_candidate(plan, s).why_not.find("holds 4 machines") != std::string::npos);
  s.candidate.max_machines = 2;
  CHECK(answer_candidate(plan, s).why_not.find("max_machines is 2") != std::string::npos);
}

TEST_CASE("one machine without a network stays one") {
  CandidateSite s = site(even(work_for(2, 30)));
  s.candidate.network.clear();
  const CandidateAnswer a = answer_candidate(calm_plan(), s);
  REQUIRE(a.point);
  CHECK(a.point->machines == 1);
  CHECK(a.why_not.find("no network") != std::string::npos);
}

TEST_CASE("what runs nowhere says why") {
  CandidateSite s = site([](int) { return 0.0; });
  const CandidateAnswer a = answer_candidate(calm_plan(), s);
  CHECK(!a.point);
  CHECK(a.why_not.starts_with("on "));
  CHECK(a.why_not.find(": does not fit; nor on any other of ") != std::string::npos);
  CHECK(a.why_not.find(" from 1 to 2,048 machines") != std::string::npos);
  CHECK(a.curve.empty());
}

TEST_CASE("where large sizes cannot run, smaller ones are tried down to one machine") {
  for (const int most : {1, 3, 40}) {
    INFO(most);
    const double work = work_for(400, 30);
    CandidateSite s = site([=](int n) { return n <= most ? work / n : 0; });
    const CandidateAnswer a = answer_candidate(calm_plan(), s);
    REQUIRE(a.point);
    CHECK(a.point->machines == most);
    CHECK(!a.meets_deadline);
    CHECK(a.why_not.find("do not run it: does not fit") != std::string::npos);
  }
}

TEST_CASE("fewer GPUs than one machine has are no candidate, and it is said what to change") {
  Plan plan = calm_plan();
  plan.max_gpus = 4;
  CandidateSite s = site(even(100));
  CandidateAnswer a = answer_candidate(plan, s);
  CHECK(!a.point);
  CHECK(a.why_not == "one machine has 8 GPUs, max_gpus is 4: raise it");
  plan.max_gpus = 40;
  s.facts.set = 6;
  a = answer_candidate(plan, s);
  CHECK(!a.point);
  CHECK(a.why_not == "the set has 48 GPUs, max_gpus is 40: raise it");
}

TEST_CASE("what is recommended was played, and is in time as played") {
  const double work = work_for(100, 29.99);
  CandidateSite s = site(even(work));
  s.search = std::make_unique<FormulaSearch>(even(work), 1, 1.2);  // A fifth slower than its closed form.
  const CandidateAnswer a = answer_candidate(calm_plan(), s);
  REQUIRE(a.point);
  CHECK(a.point->step.played_by == "formula");
  CHECK(a.point->step.step_time / a.point->step.closed_form == Approx(1.2));
  CHECK(a.meets_deadline);
  CHECK(a.point->machines >= 120);
  CHECK(a.point->machines <= 128);
}

TEST_CASE("the size chosen is in time with the odds asked for") {
  const double work = work_for(100, 29.99);
  Plan plan = calm_plan();
  CandidateSite s = site(even(work));
  s.range = [](const StrategySettings&) { return StepRange{0.8, 1.3, "a test"}; };
  CandidateAnswer a = answer_candidate(plan, s);
  REQUIRE(a.point);
  CHECK(a.point->machines == 130);  // 30 % slower in one case of ten.
  CHECK(a.meets_deadline_high);
  CHECK(a.odds_late < 0.1);
  CHECK(a.odds_late > 0.09);
  plan.odds = 0.5;
  a = answer_candidate(plan, s);
  CHECK(a.point->machines == 100);
  CHECK(a.odds_late == Approx(0.5).margin(0.01));
}

TEST_CASE("odds of a range agree with its ends") {
  const StepRange r{0.8, 1.3, ""};
  CHECK(r.quantile(0.9) == Approx(1.3));
  CHECK(r.quantile(0.1) == Approx(0.8));
  CHECK(r.quantile(0.5) == Approx(1));
  CHECK(r.odds_above(1.3) == Approx(0.1));
  CHECK(r.odds_above(0.8) == Approx(0.9));
  CHECK(r.odds_above(1) == Approx(0.5));
  CHECK(StepRange{}.odds_above(1.01) == 0);
  CHECK(StepRange{}.odds_above(0.99) == 1);
}

TEST_CASE("the time until machines compute counts against the deadline") {
  Plan plan = calm_plan();
  CandidateSite s = site(even(work_for(100, 9.99)));
  s.candidate.lead_days = 20;
  const CandidateAnswer a = answer_candidate(plan, s);
  REQUIRE(a.point);
  CHECK(a.point->machines == 100);
  CHECK((a.point->end - a.point->duration).value() == Approx(20 * kDay));
  s.candidate.lead_days = 40;
  CHECK_FALSE(answer_candidate(plan, s).meets_deadline);
}

TEST_CASE("a swing of a figure is the cost with it, and the widest comes first") {
  Plan plan = calm_plan();
  CandidateSite s = site(even(work_for(100, 29.99)));
  s.range = [](const StrategySettings&) { return StepRange{0.9, 1.1, "a test"}; };
  const CandidateAnswer a = answer_candidate(plan, s);
  REQUIRE(a.swings.size() > 3);
  for (std::size_t i = 1; i < a.swings.size(); ++i) CHECK(a.swings[i].width() <= a.swings[i - 1].width());
  const auto price =
      std::find_if(a.swings.begin(), a.swings.end(), [](const Swing& w) { return w.what == "price of a machine"; });
  REQUIRE(price != a.swings.end());
  CHECK((price->cost_to - price->cost_from).value() == Approx(0.4 * a.point->cost.parts.purchase.value()));
  CHECK(s.price.purchase == Dollars{300e3});
}

TEST_CASE("a set is taken as it is") {
  CandidateSite s = site(even(work_for(2, 30)));
  s.facts.set = 6;
  s.facts.gpus = 6.5;  // Half of them have 8, half 5.
  const CandidateAnswer a = answer_candidate(calm_plan(), s);
  REQUIRE(a.point);
  CHECK(a.curve.size() == 1);
  CHECK(a.point->machines == 6);
  CHECK(a.point->gpus == 39);
}

TEST_CASE("the size that is chosen is searched thoroughly, and what that finds decides") {
  const double work = work_for(100, 30);
  CandidateSite s = site(even(work));
  s.search = std::make_unique<FormulaSearch>(even(work), 0.9);
  const CandidateAnswer a = answer_candidate(calm_plan(), s);
  REQUIRE(a.point);
  CHECK(a.point->step.step_time.value() == Approx(0.9 * work / a.point->machines));
}

TEST_CASE("an end that is asked for keeps the sizes that were found") {
  int asked = 0;
  CandidateSite s = site(even(work_for(40, 30)));
  s.stop = [&asked] { return ++asked > 3; };
  const CandidateAnswer a = answer_candidate(calm_plan(), s);
  CHECK(a.interrupted);
  REQUIRE(a.point);
  CHECK(a.curve.size() <= 3);
  CHECK(rank_candidates(calm_plan(), "m", 1, {a}).interrupted);
  s.stop = [] { return true; };
  CHECK(answer_candidate(calm_plan(), s).why_not == "interrupted before any size was tried");
}

TEST_CASE("progress grows to no more than all") {
  std::vector<double> told;
  CandidateSite s = site(even(work_for(40, 30)));
  s.progress = [&told](double share) { told.push_back(share); };
  (void)answer_candidate(calm_plan(), s);
  REQUIRE(told.size() > 3);
  CHECK(std::is_sorted(told.begin(), told.end()));
  CHECK(told.back() <= 1);
}

TEST_CASE("budgets are held against the run and against the purchase") {
  Plan plan = calm_plan();
  plan.budget = Dollars{1e3};
  CandidateSite s = site(even(work_for(10, 29.9)));
  CHECK(!answer_candidate(plan, s).meets_budget);
  CHECK(answer_candidate(plan, s).why_not.find("budget of $1k") != std::string::npos);
  plan.budget = Dollars{1e9};
  CHECK(answer_candidate(plan, s).meets_budget);
  plan.capital_budget = Dollars{3.1e6};  // 10 machines cost 3.2.
  CHECK(!answer_candidate(plan, s).meets_budget);
}

TEST_CASE("the curve has other sizes, each faster than the one before and none cheaper by magic") {
  CandidateSite s = site([](int n) { return 400.0 / n * (1 + 0.01 * n); });
  const CandidateAnswer a = answer_candidate(calm_plan(), s);
  REQUIRE(a.point);
  REQUIRE(a.curve.size() >= 4);
  for (std::size_t i = 1; i < a.curve.size(); ++i) {
    CHECK(a.curve[i].machines > a.curve[i - 1].machines);
    CHECK(a.curve[i].duration < a.curve[i - 1].duration);
    CHECK(a.curve[i].cost.parts.total() > a.curve[i - 1].cost.parts.total());
  }
}

TEST_CASE("the objective chooses the size") {
  // Two thirds as many again are cheaper than the fewest in time, the most are the fastest.
  const double work = work_for(100, 29.9);
  const auto step = [work](int n) { return n >= 150 && n <= 200 ? 0.9 * work / n : work / n * (1 + 0.0001 * n); };
  Plan plan = calm_plan();
  plan.max_gpus = 8 * 1000;
  CandidateSite s = site(step);
  CHECK(answer_candidate(plan, s).point->machines > 101);
  CHECK(answer_candidate(plan, s).point->machines <= 200);
  plan.objective = PlanObjective::capital;
  const int fewest = answer_candidate(plan, s).point->machines;
  CHECK(fewest < 110);
  plan.objective = PlanObjective::days;
  CHECK(answer_candidate(plan, s).point->machines == 1000);
  plan.capital_budget = Dollars{500.5 * 320e3};
  const CandidateAnswer within = answer_candidate(plan, s);
  CHECK(within.meets_budget);
  CHECK(within.point->machines <= 500);
  CHECK(within.point->machines > 480);
}

TEST_CASE("no larger order is proposed for a saving that nobody can foresee") {
  const double work = work_for(50, 29.9);
  for (const auto& [saving, chosen] : {std::pair{0.01, 50}, {0.1, 104}}) {
    INFO(saving);
    const double share = 1 - saving;
    CandidateSite s = site([=](int n) { return n >= 100 ? share * work / n : work / n; });
    CHECK(answer_candidate(calm_plan(), s).point->machines == chosen);
  }
}

TEST_CASE("of sizes in time but over budget the nearest to it is taken") {
  Plan plan = calm_plan();
  plan.objective = PlanObjective::days;
  plan.capital_budget = Dollars{1e6};
  CandidateSite s = site(even(work_for(10, 29.9)));
  const CandidateAnswer a = answer_candidate(plan, s);
  CHECK(a.point->machines == 10);
  CHECK(a.meets_deadline);
  CHECK(!a.meets_budget);
}

TEST_CASE("more machines are never slower: the rest may stand idle") {
  const double work = work_for(100, 30);
  // Odd sizes divide badly: four times slower.
  const auto step = [work](int n) { return work / n * (n % 2 == 0 ? 1 : 4); };
  for (const PlanObjective objective : {PlanObjective::cost, PlanObjective::days}) {
    Plan plan = calm_plan();
    plan.objective = objective;
    CandidateSite s = site(step);
    double before = 1e99;
    for (int most = 61; most <= 99; ++most) {
      INFO(most);
      s.candidate.max_machines = most;
      const CandidateAnswer a = answer_candidate(plan, s);
      REQUIRE(a.point);
      CHECK(a.point->duration.value() <= before);
      before = a.point->duration.value();
      for (std::size_t i = 1; i < a.curve.size(); ++i) CHECK(a.curve[i].duration < a.curve[i - 1].duration);
    }
  }
}

TEST_CASE("spares follow failures, the plan and the candidate") {
  Plan plan = calm_plan();
  plan.reliability.spares.reset();
  CandidateSite s = site(even(work_for(200, 29)));
  s.reliability = load_reliability(rehearse::testing::source_path("topologies/reliability"), "ampere");
  const int automatic = answer_candidate(plan, s).point->spares;
  CHECK(automatic >= 3);
  s.rented = true;
  s.price.rental = Dollars{3};
  CHECK(answer_candidate(plan, s).point->spares == 0);
  s.candidate.spares = 5;
  CHECK(answer_candidate(plan, s).point->spares == 5);
}

TEST_CASE("who pays how follows from the prices known") {
  PlanCandidate c;
  c.where = "plan.json: /candidates/3";
  MachinePrice p;
  CHECK_THROWS_WITH(is_rented(c, p), Catch::Matchers::ContainsSubstring("no price of"));
  p.rental = Dollars{3};
  CHECK(is_rented(c, p));
  p.purchase = Dollars{1e5};
  CHECK(!is_rented(c, p));
  c.price.rental = Dollars{2};
  CHECK(is_rented(c, p));
  c.rented = false;
  CHECK(!is_rented(c, p));
}
