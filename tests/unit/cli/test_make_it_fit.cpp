// What is suggested where a plan does not fit: it fits, and nothing cheaper does.

#include <nlohmann/json.hpp>

#include "tests/support/catch.hpp"
#include "tests/unit/cli/support.hpp"

using namespace rehearse;
using test::rehearse_with;

namespace {

nlohmann::json memory_of(std::vector<std::string> words, int expected_code) {
  words.insert(words.begin(), "memory");
  words.insert(words.end(), {"--format", "json"});
  const auto o = rehearse_with(words);
  INFO(o.where << ": " << o.what);
  REQUIRE(o.code == expected_code);
  return nlohmann::json::parse(o.out);
}

void check_suggestion(const std::vector<std::string>& words, const std::string& first_key) {
  const auto answer = memory_of(words, 3);
  CHECK(answer.at("fits") == false);
  REQUIRE_FALSE(answer.at("suggestion").is_null());
  std::vector<std::string> changed = words;
  const auto& changes = answer.at("suggestion").at("changes");
  CHECK(changes.at(0).get<std::string>().starts_with(first_key));
  for (const std::string change : changes) changed.insert(changed.end(), {"--set", change});
  CHECK(memory_of(changed, 0).at("fits") == true);
}

}  // namespace

TEST_CASE("activations too large: recompute", "[fit]") {
  check_suggestion({test::scenario("llama3_405b_h100_1008"), "--set", "strategy.recompute=none"},
                   "strategy.recompute=full");
}

TEST_CASE("state too large for one GPU: shard it or split the model", "[fit]") {
  check_suggestion({test::scenario("llama3_8b_h100_8"), "--set", "strategy.tp=1", "--set", "strategy.zero_stage=0"},
                   "strategy.");
}

TEST_CASE("where no change helps, none is suggested", "[fit]") {
  const auto answer =
      memory_of({test::scenario("llama3_405b_h100_1008"), "--set", "cluster.nodes=1", "--set", "strategy.pp=1", "--set",
                 "strategy.tp=1", "--set", "strategy.virtual_stages=1", "--set", "strategy.schedule=1f1b"},
                3);
  CHECK(answer.at("suggestion").is_null());
}

TEST_CASE("simulate refuses to time what does not fit", "[fit]") {
  const auto o = rehearse_with({"simulate", test::scenario("llama3_405b_h100_1008"), "--set", "strategy.recompute=none",
                                "--backend", "analytic"});
  CHECK(o.code == 3);
  CHECK(o.out.find("step time") == std::string::npos);
  CHECK(o.out.find("--set strategy.recompute=full") != std::string::npos);
}
