// The closed form against the analytic back end on plans drawn from whole search spaces: dense, sharded, with experts.
// REHEARSE_DRAWS draws more; tests/bench/plans.cpp prints what each takes, too.

#include "tests/support/catch.hpp"
#include "tests/unit/estimate/plan_draws.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

/// As many entries as the player goes through in a fraction of a second.
constexpr double kMostPlayed = 2e4;

}  // namespace

TEST_CASE("plans of whole spaces are estimated as they are played") {
  for (const std::string& scenario : kSpaces) {
    const ScenarioJob from = load_job(kSource + "/scenarios/" + scenario + ".json");
    std::mt19937_64 random(11);
    std::vector<Compared> rows;
    for (int i = 0; i < draws(20); ++i) rows.push_back(compare_plan(from, draw_plan(from, random, kMostPlayed)));
    INFO(scenario);
    const Spread s = print(scenario, rows);
    CHECK(s.median < 0.001);
    CHECK(s.worst < 0.02);
    for (const Compared& row : rows) {
      INFO(row.name);
      CHECK(std::abs(row.estimated_parts.total().value() / row.estimated - 1) < 1e-9);
      for (const Seconds part : row.estimated_parts.seconds) CHECK(part.value() >= -1e-9 * row.estimated);
    }
  }
}
