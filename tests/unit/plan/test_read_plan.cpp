#include "core/base/error.hpp"
#include "core/plan/plan.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

namespace {

const std::string kGood = R"({
  "schema": "rehearse/plan/v1", "model": "llama3_70b",
  "training": { "global_batch": 1024, "sequence_length": 8192, "tokens": "2e12" },
  "strategy": { "tp": 8, "recompute": "full" },
  "deadline_days": 60, "budget": "$12M", "objective": "energy",
  "economics": { "pue": 1.1 }, "reliability": { "restart": "5min", "mtbf": { "gpu": "50000h" } },
  "candidates": [ { "machine": "dgx_h100", "network": "superpod_h100" },
                  { "machine": "mine.json", "network": "rail_ndr", "price": { "rental_per_gpu_hour": "$2",
                  "date": "2026-11", "source": "a quote" } } ] })";

Plan parse(const std::vector<std::string>& overrides = {}) { return parse_plan(kGood, "plans/p.json", overrides); }

/// What is refused, with its place.
std::string refusal(const std::vector<std::string>& overrides) {
  try {
    (void)parse(overrides);
  } catch (const Error& e) {
    CHECK(e.kind == ErrorKind::usage);
    return e.where + ": " + e.what() + " [" + e.hint + "]";
  }
  return "accepted";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a plan's figures are read, and what it leaves out has defaults") {
  const Plan p = parse();
  CHECK(p.name == "p");
  CHECK(p.deadline == Seconds{60 * 86400});
  CHECK(p.budget == Dollars{12e6});
  CHECK(p.objective == PlanObjective::energy);
  CHECK(p.economics.pue == 1.1);
  CHECK(p.economics.amortisation_years == Economics{}.amortisation_years);
  CHECK(p.reliability.restart == Seconds{300});
  CHECK(p.reliability.mtbf[0] == Seconds{50000 * 3600.0});
  CHECK(!p.reliability.mtbf[1]);
  CHECK(p.base.training.tokens == 2e12);
  CHECK(p.base.strategy.tp == 8);
  CHECK(p.fixed == std::set<std::string>{"tp", "recompute"});
}

TEST_CASE("candidates: files are relative to the plan, prices keep their source") {
  const Plan p = parse();
  REQUIRE(p.candidates.size() == 2);
  CHECK(p.candidates[0].name == "dgx_h100");
  CHECK(p.candidates[1].machine == "plans/mine.json");
  CHECK(p.candidates[1].price.rental == Dollars{2});
  REQUIRE(p.candidates[1].price.sources.size() == 1);
  CHECK(p.candidates[1].price.sources[0].text == "a quote");
  CHECK(p.candidates[1].where == "plans/p.json: /candidates/1");
}

TEST_CASE("the same machine twice is told apart") {
  const Plan p = parse({R"(candidates=[{"machine":"dgx_h100"},{"machine":"dgx_h100"}])"});
  CHECK(p.candidates[0].name == "dgx_h100");
  CHECK(p.candidates[1].name == "dgx_h100 (2)");
}

TEST_CASE("only names that are the same are numbered, and numbers are not given twice") {
  const auto names = [](const std::string& candidates) {
    std::vector<std::string> out;
    for (const PlanCandidate& c : parse({"candidates=" + candidates}).candidates) out.push_back(c.name);
    return out;
  };
  CHECK(names(R"([{"machine":"a","name":"x long"},{"machine":"a","name":"x"}])") ==
        std::vector<std::string>{"x long", "x"});
  CHECK(names(R"([{"machine":"a","name":"x"},{"machine":"b","name":"x"},{"machine":"a","name":"x"}])") ==
        std::vector<std::string>{"x", "x (2)", "x (3)"});
  CHECK(names(R"json([{"machine":"a","name":"x"},{"machine":"a","name":"x"},{"machine":"a","name":"x (2)"}])json") ==
        std::vector<std::string>{"x", "x (3)", "x (2)"});
}

TEST_CASE("a candidate is a machine or a cluster as it is") {
  const Plan p = parse({R"(candidates=[{"cluster":"mixed_a100_h100"},{"cluster":"mine/set.json"}])"});
  CHECK(p.candidates[0].cluster == "mixed_a100_h100");
  CHECK(p.candidates[0].name == "mixed_a100_h100");
  CHECK(p.candidates[1].cluster == "plans/mine/set.json");
  CHECK(p.candidates[1].name == "set");
  CHECK(has(refusal({R"(candidates=[{"network":"rail_ndr"}])"}), "wanted a machine's name"));
  CHECK(has(refusal({"candidates.0.cluster=selene"}), "--set candidates.0.cluster=selene: stands beside 'machine'"));
}

TEST_CASE("overrides reach every value") {
  CHECK(parse({"deadline_days=30"}).deadline == Seconds{30 * 86400});
  CHECK(parse({"plan.deadline_days=30"}).deadline == Seconds{30 * 86400});
  CHECK(parse({"training.tokens=1e12"}).base.training.tokens == 1e12);
  CHECK(parse({"candidates.0.max_machines=4"}).candidates[0].max_machines == 4);
  CHECK(parse({"candidates.1.price.rental_per_gpu_hour=$9"}).candidates[1].price.rental == Dollars{9});
  CHECK(parse({"reliability.spares=3"}).reliability.spares == 3);
  CHECK(parse({"uncertainty.low=0.8", "uncertainty.high=1.3"}).range_high == 1.3);
}

TEST_CASE("an override is blamed for what it brought in, and for nothing else") {
  CHECK(refusal({"dedline_days=3"}).starts_with("--set dedline_days=3: unknown key"));
  CHECK(refusal({"econmics.pue=1.2"}).starts_with("--set econmics.pue=1.2: unknown key"));
  CHECK(refusal({"plan.deadline_days=-1"}).starts_with("--set plan.deadline_days=-1: "));
  CHECK(refusal({"deadline_days=-1", "deadline_days=0"}).starts_with("--set deadline_days=0: "));
  CHECK(refusal({R"(candidates=[{"machin":"x"}])"}).find(": /0") != std::string::npos);
  std::string text = kGood;
  text.replace(text.find("\"pue\": 1.1"), 10, "\"pue\": 0.1");
  try {
    (void)parse_plan(text, "p.json", {"economics.utilisation=0.5", "deadline_days=3"});
    CHECK(false);
  } catch (const Error& e) {
    CHECK(e.where == "p.json: /economics/pue");
  }
}

TEST_CASE("a scenario is no plan, a plan no scenario: the verb that reads it is named") {
  CHECK_THROWS_WITH(parse_plan(R"({"schema": "rehearse/scenario/v1"})", "s.json"),
                    Catch::Matchers::ContainsSubstring("this is a scenario"));
  CHECK_THROWS_WITH(parse_scenario(kGood, "p.json"), Catch::Matchers::ContainsSubstring("this is a plan"));
  try {
    (void)parse_scenario(kGood, "p.json");
  } catch (const Error& e) {
    CHECK(has(e.hint, "'rehearse plan'"));
  }
}

TEST_CASE("what is wrong is said with its place, and what to write instead") {
  CHECK(has(refusal({"training.tokens=0"}), "--set training.tokens=0: a plan is for a whole run"));
  CHECK(has(refusal({"candidates=[]"}), "--set candidates=[]: no machine to compare"));
  CHECK(has(refusal({"deadline_days=0"}), "--set deadline_days=0: "));
  CHECK(has(refusal({"dedline_days=3"}), "did you mean 'deadline_days'"));
  CHECK(has(refusal({"economics.pui=1.2"}), "did you mean 'pue'"));
  CHECK(has(refusal({"economics.pue=0.5"}), "--set economics.pue=0.5: number 0.5 is out of range"));
  CHECK(has(refusal({"objective=costs"}), "did you mean 'cost'"));
  CHECK(has(refusal({"budget=12000000"}), "--set budget=12000000: "));
  CHECK(has(refusal({"budget=-$5"}), "--set budget=-$5: "));
  CHECK(has(refusal({"training.precison=bf16"}), "did you mean 'precision'"));
  CHECK(has(refusal({"candidates.0.machin=x"}), "--set candidates.0.machin=x: unknown key"));
  CHECK(has(refusal({"candidates.1.price.purchase=$1e99"}), "--set candidates.1.price.purchase=$1e99: "));
  CHECK(has(refusal({"candidates.7.machine=x"}), "they are 0 to 1"));
  CHECK(has(refusal({"reliability.mtbf.gpu=0h"}), "--set reliability.mtbf.gpu=0h: "));
  CHECK(has(refusal({"uncertainty.low=1.5", "uncertainty.high=1.2"}), "low is above high"));
  CHECK(has(refusal({"nonsense"}), "is not KEY=VALUE"));
  CHECK(has(refusal({"deadline_days.x=3"}), "[set 'deadline_days' itself to an object]"));
  CHECK(has(refusal({"name=\xff"}), "not UTF-8"));
  CHECK(has(refusal({"schema=rehearse/scenario/v1"}), "--set schema=rehearse/scenario/v1: this is a scenario"));
  CHECK_THROWS_AS(parse_plan("{", "p.json"), Error);
}

TEST_CASE("every key is explained, and near misses are pointed out") {
  for (const KeyHelp& k : plan_keys()) {
    INFO(k.key);
    const std::string text = explain_plan(k.key);
    CHECK(text.starts_with(k.key + ": "));
    CHECK(text.ends_with("\n"));
    CHECK(!k.help.empty());
  }
  CHECK(has(explain_plan("plan.deadline_days"), "required"));
  CHECK(has(explain_plan("plan"), "plan.economics"));
  CHECK(has(explain_plan("plan.economics"), "plan.economics.pue"));
  CHECK(has(explain_plan("plan.training.tokens"), "training.tokens"));
  try {
    (void)explain_plan("plan.deadline");
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(has(e.hint, "plan.deadline_days"));
  }
}

TEST_CASE("an example of every key is accepted") {
  for (const KeyHelp& k : plan_keys()) {
    const std::string text = explain_plan(k.key);
    const auto at = text.find("--set ");
    if (at == std::string::npos || k.key.starts_with("plan.uncertainty")) continue;
    std::string example = text.substr(at + 6, text.find('\n', at) - at - 6);
    std::erase(example, '\'');
    INFO(example);
    CHECK_NOTHROW(parse({example}));
  }
}
