#include "tests/support/catch.hpp"
#include "tests/unit/plan/support.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

/// `cost`, `days` and `energy` of a candidate that meets or misses.
CandidateAnswer answer(const std::string& name, double cost, double days, bool in_time = true, bool in_budget = true) {
  CandidateAnswer a;
  a.candidate.name = name;
  a.point = PlanPoint{};
  a.point->gpus = 64;
  a.point->machines = 8;
  a.point->step.label = "tp=8";
  a.point->duration = Seconds{days * kDay};
  a.point->cost.parts.purchase = Dollars{cost};
  a.point->cost.energy = Joules{cost * days};
  a.meets_deadline = a.meets_deadline_high = in_time;
  a.meets_budget = in_budget;
  if (!in_time) a.why_not = "takes too long";
  return a;
}

std::vector<std::string> order(const PlanAnswer& a) {
  std::vector<std::string> out;
  for (const CandidateAnswer& c : a.ranked) out.push_back(c.candidate.name);
  return out;
}

}  // namespace

TEST_CASE("what meets everything comes first, then what is in time, then what runs") {
  CandidateAnswer none;
  none.candidate.name = "none";
  none.why_not = "does not fit";
  const PlanAnswer a =
      rank_candidates(calm_plan(), "model", 7e10,
                      {none, answer("slow", 1, 70, false), answer("dear", 9, 20, true, false), answer("good", 5, 25)});
  CHECK(order(a) == std::vector<std::string>{"good", "dear", "slow", "none"});
}

TEST_CASE("the objective orders candidates that meet everything") {
  const std::vector<CandidateAnswer> all{answer("cheap", 1e6, 29), answer("fast", 3e6, 10)};
  Plan plan = calm_plan();
  CHECK(order(rank_candidates(plan, "m", 1, all)).front() == "cheap");
  plan.objective = PlanObjective::days;
  CHECK(order(rank_candidates(plan, "m", 1, all)).front() == "fast");
}

TEST_CASE("what is late is ordered by its days, not by its price") {
  const PlanAnswer a =
      rank_candidates(calm_plan(), "m", 1, {answer("late and cheap", 1, 90, false), answer("almost", 5, 31, false)});
  CHECK(order(a).front() == "almost");
  CHECK(a.why.starts_with("No candidate meets the deadline."));
}

TEST_CASE("equal candidates are ordered by name") {
  CHECK(order(rank_candidates(calm_plan(), "m", 1, {answer("b", 2, 2), answer("a", 2, 2)})) ==
        std::vector<std::string>{"a", "b"});
}

TEST_CASE("the reason has the numbers of the first two") {
  const PlanAnswer a = rank_candidates(calm_plan(), "m", 1, {answer("first", 1.25e6, 29), answer("second", 1.5e6, 28)});
  CHECK(a.why.starts_with("First is first on 64 GPUs (8 machines): it costs $1.25M in 29.0 days"));
  // 64 GPUs for 29 days.
  CHECK(a.why.find("44,544 GPU-hours at $28.1 each") != std::string::npos);
  CHECK(a.why.find("$1.5M") != std::string::npos);
  CHECK(a.why.find("20 % more") != std::string::npos);
  CHECK(a.why.find("overlap") == std::string::npos);
}

TEST_CASE("ranges that overlap are said to") {
  CandidateAnswer first = answer("first", 1.25e6, 29), second = answer("second", 1.3e6, 28);
  first.range = second.range = {0.9, 1.2, ""};
  CHECK(rank_candidates(calm_plan(), "m", 1, {first, second}).why.find("overlap") != std::string::npos);
}

TEST_CASE("nothing that runs is said plainly") {
  CandidateAnswer none;
  none.candidate.name = "none";
  none.why_not = "does not fit";
  CHECK(rank_candidates(calm_plan(), "m", 1, {none}).why == "No candidate can run this: none: does not fit.");
}

TEST_CASE("a question is made of the figures where none is given") {
  Plan plan = calm_plan();
  plan.budget = Dollars{5e6};
  const PlanAnswer a = rank_candidates(plan, "llama", 7e10, {answer("x", 1, 1)});
  CHECK(a.question ==
        "Which machine, and how many, to train llama (70 billion parameters) on 1 trillion tokens in 30 days for at "
        "most $5M?");
  plan.deadline = Seconds{kDay};
  CHECK(rank_candidates(plan, "llama", 7e10, {answer("x", 1, 1)}).question.find("tokens in 1 day for") !=
        std::string::npos);
  plan.question = "Mine?";
  CHECK(rank_candidates(plan, "llama", 7e10, {answer("x", 1, 1)}).question == "Mine?");
}
