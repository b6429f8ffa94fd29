// Scenarios that ship are found from any folder.

#include "core/api/session/scenario_file.hpp"
#include "core/base/error.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

TEST_CASE("a relative path that names no file here names a shipped scenario") {
  const Scenario scenario = load_scenario_file("scenarios/gpt2_v100.json", {"strategy.microbatch=2"});
  CHECK(scenario.strategy.microbatch == 2);
  CHECK_THROWS_AS(load_scenario_file("scenarios/no_such_scenario.json"), Error);
  CHECK_THROWS_AS(load_scenario_file("/scenarios/gpt2_v100.json"), Error);
}
