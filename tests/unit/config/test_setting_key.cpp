// Keys that a file declares by itself: here, this one.

#include <nlohmann/json.hpp>

#include "core/config/scenario.hpp"
#include "core/config/setting_key.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

namespace {

const SettingKey<bool> kEager = declare_key("strategy.eager", false, "Gathers everything at once.",
                                            {.detail = "All of it.", .searched = {false, true}});
const SettingKey<std::int64_t> kDepth =
    declare_key("kernels.depth", std::int64_t{4}, "Kernels in flight.", {.least = 1, .most = 64, .example = "8"});
const SettingKey<std::string> kShape =
    declare_key("training.fp8.shape", std::string("round"), "Shape of scales.", {.choices = {"round", "square"}});

constexpr const char* kText = R"({"schema": "rehearse/scenario/v1", "model": "gpt2", "cluster": "one",
  "training": {"global_batch": 8, "fp8": {"shape": "square"}}, "strategy": {"eager": true}})";

}  // namespace

TEST_CASE("a declared key is read, overridden, written and read again") {
  const Scenario s = parse_scenario(kText, "test.json", {"kernels.depth=16"});
  CHECK(kEager(s.strategy));
  CHECK(kDepth(s.kernels) == 16);
  CHECK(kShape(s.training) == "square");
  const std::string resolved = resolved_json(s);
  CHECK(parse_scenario(resolved, "again.json") == s);
  CHECK(nlohmann::json::parse(resolved)["kernels"]["depth"] == 16);
}

TEST_CASE("a declared key left out has its default, which is no difference") {
  const Scenario s = parse_scenario(kText, "test.json", {"strategy.eager=false", "training.fp8.shape=round"});
  CHECK(s.strategy.declared == DeclaredSettings{});
  CHECK_FALSE(kEager(s.strategy));
  CHECK(kDepth(s.kernels) == 4);
  CHECK(nlohmann::json::parse(resolved_json(s))["strategy"]["eager"] == false);
}

TEST_CASE("a declared key out of range, of another type or unknown is refused") {
  for (const char* wrong : {"kernels.depth=0", "kernels.depth=65", "kernels.depth=fast", "strategy.eager=1",
                            "training.fp8.shape=flat", "strategy.eagre=true"})
    CHECK_THROWS_AS(parse_scenario(kText, "test.json", {wrong}), Error);
  DeclaredSettings settings;
  CHECK_THROWS_AS(settings.set("strategy.nowhere", true), std::logic_error);
  CHECK_THROWS_AS(settings.set("kernels.depth", true), std::logic_error);
}

TEST_CASE("a declared key is explained, listed and in the schema, behind its group's own keys") {
  CHECK(explain("strategy.eager").find("All of it.") != std::string::npos);
  CHECK(explain("depth").find("1 to 64") != std::string::npos);
  std::vector<std::string> keys;
  for (const KeyHelp& k : scenario_keys()) keys.push_back(k.key);
  const auto at = [&](const char* key) { return std::find(keys.begin(), keys.end(), key) - keys.begin(); };
  CHECK(at("kernels.depth") == at("kernels.cuda_graphs") + 1);
  const auto properties = nlohmann::json::parse(scenario_json_schema())["properties"];
  CHECK(properties["strategy"]["properties"]["eager"]["type"] == "boolean");
  CHECK(properties["training"]["properties"]["fp8"]["properties"]["shape"]["enum"].size() == 2);
}
