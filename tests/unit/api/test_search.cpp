// Search through the facade.

#include "core/config/settings/strategy.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/api/support.hpp"

using namespace rehearse;
using testing::toy;
using testing::toys;

namespace {

SearchRequest small(std::vector<std::string> fix = {"tp=1", "microbatch=1", "offload=none", "cp=1"}) {
  SearchRequest out;
  out.data = toys();
  out.fix = std::move(fix);
  out.backend = "analytic";
  out.jobs = 1;
  return out;
}

}  // namespace

TEST_CASE("the best plan is no slower than the scenario's own and keeps what is fixed", "[api]") {
  const SearchReport found = search(toy("pipeline_1f1b"), small());
  REQUIRE_FALSE(found.result.best.empty());
  REQUIRE(found.result.own.has_value());
  CHECK(found.own_refused.empty());
  CHECK(found.result.best.front().evaluation.time() <= found.result.own->evaluation.time());
  for (const Found& plan : found.result.best) {
    CHECK(plan.settings.tp == 1);
    CHECK(plan.settings.microbatch == 1);
    CHECK(found.range.rows >= 0);
  }
}

TEST_CASE("the answer is the same for any number of threads", "[api]") {
  SearchRequest request = small();
  const std::string one = to_json(search(toy("pipeline_1f1b"), request));
  request.jobs = 3;
  CHECK(to_json(search(toy("pipeline_1f1b"), request)) == one);
}

TEST_CASE("a strategy that is no plan for its cluster is told, and the rest is searched", "[api]") {
  const SearchReport found = search(toy("pipeline_1f1b", {"strategy.dp=4", "strategy.dp_replicate=4"}), small());
  CHECK_FALSE(found.own_refused.empty());
  CHECK_FALSE(found.result.own.has_value());
  CHECK_FALSE(found.result.best.empty());
}

TEST_CASE("an objective needs its figures, and a setting to fix is one of the strategy", "[api]") {
  SearchRequest request = small();
  request.objective = Objective::cost_per_token;
  CHECK_THROWS_AS(search(toy("pipeline_1f1b"), request), Error);
  CHECK_THROWS_AS(search(toy("pipeline_1f1b"), small({"cluster.nodes=2"})), Error);
  CHECK_THROWS_AS(search(toy("pipeline_1f1b"), small({"tp"})), Error);
}
