#include "core/config/settings/strategy.hpp"
#include "core/report/plan/plan_report.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/plan/support.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

/// What stands last in the row of a candidate that takes `days` of calm_plan's 30, in a range of `low` to `high` times
/// that.
std::string grade(double days, double low, double high) {
  const Plan plan = calm_plan();
  CandidateSite s = site([days](int) { return days * kDay / (1e12 / (512 * 4096.0)); });
  s.candidate.max_machines = 1;
  s.range = [low, high](const StrategySettings&) { return StepRange{low, high, "measured"}; };
  std::vector<CandidateAnswer> answers;
  answers.push_back(answer_candidate(plan, s));
  const Document document = plan_document(rank_candidates(plan, "model", 7e10, std::move(answers)), "0");
  for (const DocumentBlock& block : document.blocks)
    if (const auto* table = std::get_if<Table>(&block)) return table->rows.at(0).back();
  return "no table";
}

}  // namespace

TEST_CASE("a candidate is graded by where the deadline lies in its range") {
  CHECK(grade(20, 0.9, 1.4) == "in time");
  CHECK(grade(29.9, 1, 1) == "in time");
  CHECK(grade(25, 0.9, 1.4) == "may be late");
  CHECK(grade(31, 0.9, 1.4) == "late");
  CHECK(grade(90, 0.9, 1.4) == "late");
}
