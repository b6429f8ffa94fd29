// What holds for every plan: figures that follow from one another, and what dearer, slower and less reliable machines
// cannot do.
#include <cmath>

#include "core/config/settings/strategy.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/property.hpp"
#include "tests/unit/plan/support.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

double between(int low, int high) { return *rc::gen::inRange(low, high); }

/// Any economics, reliability and deadline.
Plan any_plan() {
  Plan plan;
  plan.base.training.tokens = between(1, 4000) * 1e10;
  plan.deadline = Seconds{between(5, 200) * kDay};
  plan.economics.amortisation_years = between(1, 8);
  plan.economics.utilisation = between(20, 101) / 100;
  plan.economics.residual_share = between(0, 101) / 100;
  plan.economics.cost_of_capital = between(0, 20) / 100;
  plan.economics.storage_share = between(0, 30) / 100;
  plan.economics.colocation = Dollars{between(0, 400)};
  plan.economics.staff = Dollars{between(0, 10000)};
  plan.economics.electricity = Dollars{between(0, 50) / 100};
  plan.economics.pue = 1 + between(0, 80) / 100;
  plan.reliability.restart = Seconds{between(0, 3600)};
  plan.reliability.jitter = between(0, 30) / 1000;
  plan.reliability.checkpoint_blocking = between(0, 101) / 100;
  return plan;
}

/// How much longer than predicted a step takes in one case of ten; plans ask for odds of nine in ten.
constexpr double kSlow = 1.3;

struct AnySite {
  double work = between(10, 40000), overhead = between(0, 50) / 10000;
  double purchase = between(10, 4000) * 1e3, rental = between(10, 2000) / 100, mtbf_hours = between(2000, 200000);
  bool rented = *rc::gen::arbitrary<bool>();
};

CandidateAnswer answer(const Plan& plan, const AnySite& a) {
  CandidateSite s = site([a](int n) { return a.work / n + a.overhead * n; });
  s.price.purchase = Dollars{a.purchase};
  s.price.rental = Dollars{a.rental};
  s.rented = a.rented;
  s.reliability.times[Part::gpu] = Seconds{a.mtbf_hours * 3600};
  s.range = [](const StrategySettings&) { return StepRange{0.9, kSlow, ""}; };
  return answer_candidate(plan, s);
}

/// The fewest machines tried that are in time at the slow end.
int fewest_in_time(const Plan& plan, const CandidateAnswer& c) {
  for (const PlanPoint& p : c.curve)
    if (p.duration * kSlow <= plan.deadline) return p.machines;
  return 0;
}

/// What one dollar costs a year: equal payments at the ends of whole years that, with what is left, are worth a dollar
/// today.
double payment(const Economics& e) {
  double worth = 0, left = e.residual_share;
  for (int y = 1; y <= static_cast<int>(e.amortisation_years); ++y) {
    worth += std::pow(1 + e.cost_of_capital, -y);
    left /= 1 + e.cost_of_capital;
  }
  return (1 - left) / worth;
}

/// core/plan/README.md, in dollars: site() has 8 GPUs, 10 kW and $20k of network to a machine.
double expected_cost(const Plan& plan, const AnySite& a, const PlanPoint& p) {
  const Economics& e = plan.economics;
  const double hours = p.duration.value() / 3600, machines = p.machines + p.spares;
  if (a.rented) return machines * 8 * hours * a.rental;
  const double years = hours / 24 / 365.25 / e.utilisation;
  const double owned = (a.purchase * (1 + e.storage_share) + 20e3) * payment(e);
  const double kept = 10 * 12 * e.colocation.value() + e.staff.value();
  return machines * years * (owned + kept) +
         p.machines * 10 * e.power_share * (1 + e.network_power_share) * e.pue * hours * e.electricity.value();
}

bool close(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b)); }

}  // namespace

TEST_CASE("figures of a plan follow from one another") {
  check_property(
      "days = tokens / throughput / goodput; parts add up; goodput is a share; a size in time is in time", [] {
        const Plan plan = any_plan();
        const AnySite a;
        const CandidateAnswer c = answer(plan, a);
        RC_ASSERT(c.point.has_value());
        for (const PlanPoint& p : c.curve) {
          const double tokens_per_s = static_cast<double>(p.step.global_batch) * 4096 / p.step.step_time.value();
          RC_ASSERT(close(p.duration.value(), plan.base.training.tokens / tokens_per_s / p.goodput.total));
          RC_ASSERT(p.goodput.total >= 0 && p.goodput.total <= 1);
          RC_ASSERT(close(p.goodput.total, p.goodput.stragglers * p.goodput.checkpoints * p.goodput.spares));
          const CostParts& k = p.cost.parts;
          RC_ASSERT(close(k.total().value(), expected_cost(plan, a, p)));
          RC_ASSERT((a.rented ? k.purchase : k.rental) == Dollars{0});
          RC_ASSERT(p.gpus == 8 * p.machines);
        }
        RC_ASSERT(c.meets_deadline == (c.point->duration <= plan.deadline));
        RC_ASSERT(!c.meets_deadline_high || c.meets_deadline);
        RC_ASSERT(c.meets_deadline == c.why_not.empty());
      });
}

TEST_CASE("no size tried is better") {
  check_property(
      "of the points of the curve that are in time none is better by the objective, but for fewer machines at 5 % more "
      "cost or energy; more machines are never slower",
      [] {
        Plan plan = any_plan();
        plan.objective = *rc::gen::element(PlanObjective::cost, PlanObjective::days, PlanObjective::energy);
        const CandidateAnswer c = answer(plan, {});
        const double margin = plan.objective == PlanObjective::days ? 0 : 0.05;
        const double slow = c.meets_deadline_high ? kSlow : 1;
        if (c.meets_deadline)
          for (const PlanPoint& p : c.curve)
            RC_ASSERT(p.duration * slow > plan.deadline || objective_value(plan.objective, p) * (1 + margin + 1e-6) >=
                                                               objective_value(plan.objective, *c.point));
        for (std::size_t i = 1; i < c.curve.size(); ++i)
          RC_ASSERT(c.curve[i].machines > c.curve[i - 1].machines && c.curve[i].duration < c.curve[i - 1].duration);
      });
}

TEST_CASE("money follows prices") {
  check_property(
      "a higher price never makes a run cheaper, nor changes its size or days; twice the price is twice its part", [] {
        const Plan plan = any_plan();
        AnySite a;
        const CandidateAnswer before = answer(plan, a);
        a.purchase *= 2;
        a.rental *= 2;
        const CandidateAnswer after = answer(plan, a);
        RC_ASSERT(after.point->machines == before.point->machines);
        RC_ASSERT(after.point->duration == before.point->duration);
        RC_ASSERT(after.point->cost.energy == before.point->cost.energy);
        RC_ASSERT(close(after.point->cost.parts.purchase.value(), 2 * before.point->cost.parts.purchase.value()));
        RC_ASSERT(close(after.point->cost.parts.rental.value(), 2 * before.point->cost.parts.rental.value()));
        RC_ASSERT(after.point->cost.parts.total() >= before.point->cost.parts.total());
      });
}

TEST_CASE("time follows failures and work") {
  check_property("less reliable machines never need fewer of them, and a later deadline never more", [] {
    Plan plan = any_plan();
    plan.reliability.spares = 2;
    AnySite a;
    a.overhead = 0;
    const CandidateAnswer before = answer(plan, a);
    AnySite worse = a;
    worse.mtbf_hours /= 4;
    const CandidateAnswer after = answer(plan, worse);
    if (before.meets_deadline_high && after.meets_deadline_high)
      RC_ASSERT(fewest_in_time(plan, after) >= fewest_in_time(plan, before));
    Plan later = plan;
    later.deadline = 2 * plan.deadline;
    const CandidateAnswer relaxed = answer(later, a);
    if (before.meets_deadline_high)
      RC_ASSERT(relaxed.meets_deadline_high && fewest_in_time(later, relaxed) <= fewest_in_time(plan, before));
  });
}

TEST_CASE("the ranking is by the objective") {
  check_property("of two candidates that meet everything the one with less of it is first", [] {
    Plan plan = any_plan();
    plan.objective = *rc::gen::element(PlanObjective::cost, PlanObjective::days, PlanObjective::energy);
    CandidateAnswer a = answer(plan, {}), b = answer(plan, {});
    a.candidate.name = "a";
    b.candidate.name = "b";
    const PlanAnswer ranked = rank_candidates(plan, "m", 1e9, {a, b});
    const CandidateAnswer &first = ranked.ranked[0], &second = ranked.ranked[1];
    RC_ASSERT(first.meets_deadline || !second.meets_deadline);
    if (first.meets_deadline && second.meets_deadline)
      RC_ASSERT(objective_value(plan.objective, *first.point) <= objective_value(plan.objective, *second.point));
    RC_ASSERT(ranked.why.find(first.meets_deadline ? "First is " + first.candidate.name
                                                   : "Nearest is " + first.candidate.name) != std::string::npos);
  });
}
