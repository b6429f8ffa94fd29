// Whatever is wrong with a scenario, the answer is a usage error that says where and what.

#include <random>

#include "tests/unit/config/support_scenario.hpp"

using namespace rehearse;
using namespace rehearse::test;
using nlohmann::json;

namespace {

struct Bad {
  std::string pointer;
  json value;
  std::string says;  ///< Part of the message or the hint.
};

}  // namespace

TEST_CASE("values of the wrong type, sign or size are refused at their place") {
  const std::vector<Bad> table{
      {"/strategy/tp", "eight", "wanted an integer, found string \"eight\""},
      {"/strategy/tp", 2.5, "wanted an integer, found number 2.5"},
      {"/strategy/tp", true, "found boolean true"},
      {"/strategy/tp", nullptr, "found null"},
      {"/strategy/tp", 0, "1 to 10000000"},
      {"/strategy/tp", -8, "1 to 10000000"},
      {"/strategy/tp", 20000000, "1 to 10000000"},
      {"/strategy/tp", 1e300, "1 to 10000000"},
      {"/strategy/dp", "automatic", "\"auto\""},
      {"/strategy/pp", json::array({1}), "found array [1]"},
      {"/strategy/zero_stage", 4, "0 to 3"},
      {"/strategy/bucket", 25, "unit is missing"},
      {"/strategy/bucket", "25", "unit is missing"},
      {"/strategy/bucket", "25 XB", "unknown unit 'XB'"},
      {"/strategy/bucket", "-25MB", "negative"},
      {"/strategy/bucket", "0B", "out of range"},
      {"/strategy/bucket", "nan MB", "not finite"},
      {"/strategy/recompute", "Full", "did you mean 'full'?"},
      {"/strategy/recompute", true, "wanted a string"},
      {"/strategy/sequence_parallel", 1, "wanted true or false"},
      {"/strategy/placement", "tp,dq,pp", "did you mean 'dp'?"},
      {"/strategy/placement", "tp,dp,tp", "listed twice"},
      {"/strategy/placement", "", "unknown axis ''"},
      {"/strategy/placement", 3, "wanted a string"},
      {"/strategy/layers_per_stage", "20,x", "wanted integers separated by commas, found 'x'"},
      {"/strategy/layers_per_stage", "20,,20", "found ''"},
      {"/strategy/layers_per_stage", json::array({20, -1}), "0 to 10000000"},
      {"/strategy/layers_per_stage", json::array({20, 1.5}), "1.5 is no integer"},
      {"/strategy/batch_per_replica", json::array({"a"}), "wanted"},
      {"/strategy/balance", "layer", "did you mean 'layers'?"},
      {"/strategy/overlap", false, "wanted an object"},
      {"/strategy/overlap/tp", "yes", "wanted true or false"},
      {"/strategy/schedule", "", "empty"},
      {"/training/global_batch", 0, "1 to 10000000"},
      {"/training/tokens", 1e16, "0 to 1e+15"},
      {"/training/tokens", "1e16", "0 to 1e+15"},
      {"/training/tokens", -1, "0 to 1e+15"},
      {"/training/tokens", "300 billion", "300e9"},
      {"/training/tokens", "nan", "out of range"},
      {"/training/sequence_length", -1, "0 to 10000000"},
      {"/training/precision", "fp16", "valid: fp32, tf32, bf16"},
      {"/training/seed", 1e18, "out of range"},
      {"/training", 3, "wanted an object"},
      {"/model", 3, "config.json"},
      {"/model", "", "empty"},
      {"/cluster", 3, "wanted a cluster's name"},
      {"/cluster", json::object(), "'machine' is missing"},
      {"/cluster", json::array(), "at least one"},
      {"/cluster", json::array({3}), "wanted an object"},
      {"/cluster", {{"machine", "a"}, {"nodes", 0}}, "1 to 10000000"},
      {"/cluster", {{"machine", "a"}, {"node", 4}}, "did you mean 'nodes' or 'gpus_per_node'?"},
      {"/cluster", {{"machine", "a"}, {"parts", json::array({{{"machine", "a"}}})}}, "beside 'parts'"},
      {"/kernels/attention", "flsh", "did you mean 'flash'?"},
      {"/calibration", 7, "wanted a string"},
      {"/schema", "rehearse/scenario/v2", "rehearse/scenario/v1"},
  };
  for (const Bad& bad : table) {
    const Error e = refused_scenario(least_with(bad.pointer, bad.value));
    CAPTURE(bad.pointer, bad.value.dump(), e.what(), e.hint, e.where);
    CHECK(contains(std::string(e.what()) + " " + e.hint, bad.says));
    CHECK(e.where.starts_with("s.json: " + bad.pointer));
    CHECK(contains(e.hint, "rehearse explain"));
  }
}

TEST_CASE("unknown keys are refused with the nearest valid one") {
  const auto hint = [](const std::string& pointer) { return refused_scenario(least_with(pointer, 1)).hint; };
  CHECK(hint("/strategy/bukcet").starts_with("did you mean 'bucket'?"));
  CHECK(hint("/strategy/overlap/grad_reduction").starts_with("did you mean 'grad_reduce'?"));
  CHECK(hint("/stratgy").starts_with("did you mean 'strategy'?"));
  CHECK(hint("/global_batch").starts_with("did you mean 'training.global_batch'?"));
  CHECK(hint("/training/dp_shard").starts_with("did you mean 'strategy.dp_shard'?"));
  const Error e = refused_scenario(least_with("/strategy/overlap/quux", 1));
  CHECK(e.where == "s.json: /strategy/overlap/quux");
  CHECK(contains(e.hint, "valid: grad_reduce"));
}

TEST_CASE("required keys that are missing are named at the object that lacks them") {
  json document = json::parse(kLeast);
  document.erase("training");
  const Error e = refused_scenario(document.dump());
  CHECK(e.where == "s.json: /training");
  CHECK(contains(e.what(), "'global_batch' is missing"));
  for (const char* key : {"schema", "model", "cluster"}) {
    document = json::parse(kLeast);
    document.erase(key);
    CHECK(contains(refused_scenario(document.dump()).what(), std::string("'") + key + "' is missing"));
  }
  CHECK(contains(refused_scenario("[]").what(), "wanted an object"));
}

TEST_CASE("duplicate keys and NaN are refused as everywhere") {
  CHECK(refused_scenario(R"({"schema": "rehearse/scenario/v1", "strategy": {"tp": 1, "tp": 2}})").where ==
        "s.json: /strategy/tp");
  CHECK(contains(refused_scenario(R"({"training": {"tokens": NaN}})").hint, "no NaN"));
}

TEST_CASE("every truncation of a scenario is a usage error") {
  const std::string text = kGpt3;
  for (std::size_t n = 0; n < text.size(); ++n) {
    const Error e = refused_scenario(text.substr(0, n));
    if (n > 0) CHECK(e.where.starts_with("s.json:"));
  }
}

TEST_CASE("damaged scenarios read or are refused, and nothing else happens") {
  std::mt19937 random(20240501);
  std::uniform_int_distribution<std::size_t> position(0, std::string(kGpt3).size() - 1);
  std::uniform_int_distribution<int> byte(0, 255), flips(1, 4);
  int refusals = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = kGpt3;
    for (int k = flips(random); k > 0; --k) text[position(random)] = static_cast<char>(byte(random));
    try {
      Scenario s = parsed(text);
      resolve_axes(s, 1024);
    } catch (const Error& e) {
      ++refusals;
      if (e.kind != ErrorKind::usage || e.where.empty() || std::string(e.what()).empty())
        FAIL(e.what() << " for " << text);
    }
  }
  CHECK(refusals > 15000);  // Most damage is noticed; the rest fell on blanks and digits.
}
