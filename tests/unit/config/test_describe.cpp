#include <set>

#include "tests/unit/config/support_scenario.hpp"

using namespace rehearse;
using namespace rehearse::test;
using nlohmann::json;

TEST_CASE("explain says type, range, default, meaning and an example") {
  const std::string tp = explain("strategy.tp");
  CHECK(contains(tp, "strategy.tp: Tensor-parallel ranks"));
  CHECK(contains(tp, "type     integer"));
  CHECK(contains(tp, "range    1 to 10000000"));
  CHECK(contains(tp, "default  1"));
  CHECK(contains(tp, "--set strategy.tp="));
  CHECK(contains(explain("strategy.recompute"), "one of: none, selective, full"));
  CHECK(contains(explain("strategy.bucket"), "default  \"25MB\""));
  CHECK(contains(explain("strategy.dp"), "default  \"auto\""));
  CHECK(contains(explain("training.global_batch"), "default  required"));
  CHECK(contains(explain("strategy.placement"), "tp,cp,ep,dp,pp"));
  CHECK(explain("tp") == tp);  // Not strategy.overlap.tp.
  CHECK(explain("microbatch") == explain("strategy.microbatch"));
}

TEST_CASE("explain on a group lists its members, on nothing the groups") {
  const std::string group = explain("strategy");
  CHECK(contains(group, "strategy.tp "));
  CHECK(contains(group, "strategy.overlap.grad_reduce"));
  CHECK(explain("overlap") == explain("strategy.overlap"));
  CHECK_FALSE(contains(group, "training."));
  CHECK(contains(explain("cluster"), "cluster.nodes"));
  CHECK(contains(explain(""), "strategy.overlap"));
  CHECK(contains(explain("extends"), "merged"));
}

TEST_CASE("explain on an unknown key suggests the nearest") {
  CHECK(refused([] { (void)explain("strategy.bukcet"); }).hint.starts_with("did you mean 'strategy.bucket'?"));
  CHECK(refused([] { (void)explain("bukcet"); }).hint == "did you mean 'strategy.bucket'?");
  CHECK(contains(refused([] { (void)explain("quux"); }).hint, "see 'rehearse list keys'"));
}

TEST_CASE("every key explains itself and its example is accepted") {
  const std::set<std::string> needs_more{"cluster.network", "cluster.parts", "strategy.virtual_stages"};
  std::set<std::string> seen;
  for (const KeyHelp& k : scenario_keys()) {
    CAPTURE(k.key);
    CHECK(seen.insert(k.key).second);
    CHECK_FALSE(k.help.empty());
    CHECK(k.help.find('\n') == std::string::npos);
    const std::string text = explain(k.key);
    CHECK(text.ends_with("\n"));
    const auto at = text.find("--set ");
    REQUIRE(at != std::string::npos);
    std::string example = text.substr(at + 6, text.find('\n', at) - at - 6);
    std::erase(example, '\'');
    CAPTURE(example);
    if (example == "calibration=" || example == "collective_table=") continue;
    json document = json::parse(kGpt3);
    if (k.key == "cluster.parts") document["cluster"] = {{"network", "ib"}};
    document["strategy"].erase("dp");  // So that an example for one axis stands alone.
    document["strategy"].erase("dp_shard");
    CHECK_NOTHROW(parsed(document.dump(), {example}));
  }
  CHECK(seen.size() > 40);
}

TEST_CASE("the JSON Schema knows every key, type and default of the table") {
  const json schema = json::parse(scenario_json_schema());
  CHECK(schema.at("$schema") == "https://json-schema.org/draft/2020-12/schema");
  const json& strategy = schema.at("properties").at("strategy");
  CHECK(strategy.at("additionalProperties") == false);
  CHECK(strategy.at("properties").at("tp").at("type") == "integer");
  CHECK(strategy.at("properties").at("tp").at("maximum") == 10000000);
  CHECK(strategy.at("properties").at("tp").at("default") == 1);
  CHECK(strategy.at("properties").at("dp").at("anyOf").at(1).at("const") == "auto");
  CHECK(strategy.at("properties").at("recompute").at("enum") == json({"none", "selective", "full"}));
  CHECK(strategy.at("properties").at("overlap").at("properties").at("tp").at("type") == "boolean");
  const json& cluster = schema.at("properties").at("cluster").at("anyOf");
  CHECK(cluster.at(0) == json({{"type", "string"}}));
  CHECK(cluster.at(1).at("properties").size() == 7);
  CHECK(cluster.at(2).at("items").at("required") == json::array({"machine"}));
  for (const KeyHelp& k : scenario_keys()) {
    if (k.key.starts_with("cluster.")) continue;
    std::string pointer = "/properties/" + k.key;
    for (std::size_t dot; (dot = pointer.find('.')) != std::string::npos;) pointer.replace(dot, 1, "/properties/");
    CAPTURE(pointer);
    CHECK(schema.contains(json::json_pointer(pointer)));
  }
}
