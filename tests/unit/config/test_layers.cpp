// Scenarios that extend others, and overrides from the command line.

#include <fmt/format.h>

#include "core/config/settings/choices.hpp"
#include "tests/unit/config/support_scenario.hpp"

using namespace rehearse;
using namespace rehearse::test;

TEST_CASE("overrides are JSON where they parse as JSON, else text") {
  const Scenario s = parsed(kLeast, {"strategy.tp=8", "strategy.bucket=40MB", "strategy.sequence_parallel=true",
                                     "training.tokens=300e9", "strategy.overlap.grad_reduce=false",
                                     "kernels.attention=unfused", "strategy.schedule=\"gpipe\"", "model=a=b"});
  CHECK(s.strategy.tp == 8);
  CHECK(s.strategy.bucket == Bytes{40e6});
  CHECK(s.strategy.sequence_parallel);
  CHECK(s.training.tokens == 300e9);
  CHECK_FALSE(s.strategy.overlap.grad_reduce);  // The object was not in the file.
  CHECK(s.kernels.attention == AttentionKernel::unfused);
  CHECK(s.strategy.schedule == "gpipe");
  CHECK(s.model.name == "a=b");
}

TEST_CASE("the last of two overrides wins") {
  CHECK(parsed(kLeast, {"strategy.tp=2", "strategy.tp=4"}).strategy.tp == 4);
}

TEST_CASE("overrides reach into clusters and inline models") {
  CHECK(parsed(kGpt3, {"cluster.nodes=64"}).cluster.parts[0].nodes == 64);
  CHECK(parsed(kGpt3, {"cluster.network=other"}).cluster.network == "other");
  CHECK(parsed(kLeast, {R"(cluster={"machine": "m", "nodes": 2})"}).cluster.parts[0] == ClusterPart{"m", 2});
  CHECK(parsed(least_with("/model", {{"n_layer", 2}}), {"model.n_layer=4"}).model.inline_json == R"({"n_layer":4})");
  CHECK(contains(refused_scenario(kLeast, {"cluster.nodes=4"}).what(), "'cluster' is string \"lab\""));
  CHECK(contains(refused_scenario(kGpt3, {"model.n_layer=4"}).what(), "has no member 'n_layer'"));
}

TEST_CASE("an override may name a key without its groups, the outermost of that name") {
  CHECK(parsed(kLeast, {"tp=8"}).strategy.tp == 8);
  CHECK(parsed(kLeast, {"fsdp.enabled=true"}).strategy.fsdp.enabled);
  CHECK(parsed(kLeast, {"global_batch=32"}).training.global_batch == 32);
}

TEST_CASE("a wrong override is named with its own text") {
  const Error type = refused_scenario(kLeast, {"strategy.tp=eight"});
  CHECK(type.where == "--set strategy.tp=eight: /strategy/tp");
  CHECK(contains(type.what(), "found string \"eight\""));
  CHECK(contains(refused_scenario(kLeast, {"strategy.tp=0"}).what(), "out of range"));
  CHECK(contains(refused_scenario(kLeast, {"strategy.bucket=25"}).what(), "unit is missing"));
  CHECK(refused_scenario(kLeast, {"strategy.tpp=8"}).hint.starts_with("did you mean 'strategy.tp'?"));
  CHECK(refused_scenario(kLeast, {"tpp=8"}).hint == "did you mean 'strategy.tp'? see 'rehearse list keys'");
  CHECK(contains(refused_scenario(kLeast, {"strategy={}"}).hint, "strategy.tp"));
  CHECK(contains(refused_scenario(kLeast, {"strategy.tp"}).what(), "KEY=VALUE"));
  CHECK(contains(refused_scenario(kLeast, {"=8"}).what(), "KEY=VALUE"));
  CHECK(contains(refused_scenario(kLeast, {"cluster={\"machine\": "}).what(), "ends early"));
  CHECK(contains(refused_scenario(kLeast, {R"(cluster={"machine": "a", "machine": "b"})"}).what(), "occurs twice"));
  CHECK(contains(refused_scenario(kLeast, {"model=\xff\xfe"}).what(), "UTF-8"));
  CHECK(contains(refused_scenario(kLeast, {"strategy.tp="}).what(), "found string \"\""));
  CHECK_NOTHROW(refused_scenario(kLeast, {"model..x=1"}));
}

TEST_CASE("a scenario that extends another changes only what it says") {
  const Directory dir("extends");
  dir.write("base/gpt3.json", kGpt3);
  const std::string child = dir.write(
      "child.json",
      R"({"extends": "base/gpt3.json", "cluster": {"nodes": 64}, "strategy": {"dp": 8, "overlap": {"tp": true}}})");
  const Scenario s = load_scenario(child);
  CHECK(s.cluster.parts[0] == ClusterPart{"dgx_a100_80gb", 64});
  CHECK(s.strategy.dp == 8);
  CHECK(s.strategy.tp == 8);
  CHECK(s.strategy.overlap.tp);
  CHECK_FALSE(s.strategy.overlap.param_gather);
  CHECK(s.model.file == dir.at("base/models/gpt3_175b/config.json"));  // Relative to the file that names it.
  CHECK(s.origin == child);
  CHECK(load_scenario(child, {"strategy.dp=4"}).strategy.dp == 4);
}

TEST_CASE("references are relative to the file that holds them, those of overrides to the current directory") {
  const Directory dir("references");
  const std::string file =
      dir.write("s/x.json",
                R"({"schema": "rehearse/scenario/v1", "model": "../m/c.json", "calibration": "p.json", "strategy":
      {"devices": "hosts"},
      "cluster": {"parts": [{"machine": "m/a.json"}, {"machine": "dgx"}], "network": "/abs/n.json"}, "training":
      {"global_batch": 8}})");
  const Scenario s = load_scenario(file);
  CHECK(s.model.file == dir.at("m/c.json"));
  CHECK(s.calibration == dir.at("s/p.json"));
  CHECK(s.strategy.devices == dir.at("s/hosts"));  // A path, though it looks like a name.
  CHECK(s.cluster.parts[0].machine == dir.at("s/m/a.json"));
  CHECK(s.cluster.parts[1].machine == "dgx");
  CHECK(s.cluster.network == "/abs/n.json");
  CHECK(load_scenario(file, {"model=here/c.json"}).model.file == "here/c.json");
}

TEST_CASE("an error in an extended file names that file") {
  const Directory dir("blame");
  const std::string base = dir.write("base.json", R"({"strategy": {"tp": "x"}})");
  const std::string child = dir.write("child.json", R"({"extends": "base.json"})");
  CHECK(refused([&] { (void)load_scenario(child); }).where == base + ": /strategy/tp");
  const std::string gone = dir.write("gone.json", R"({"extends": "none.json"})");
  const Error missing = refused([&] { (void)load_scenario(gone); });
  CHECK(missing.where == gone + ": /extends");
  CHECK(contains(missing.what(), "none.json' does not exist"));
  const std::string number = dir.write("number.json", R"({"extends": 3})");
  CHECK(contains(refused([&] { (void)load_scenario(number); }).what(), "found number 3"));
}

TEST_CASE("scenarios that extend each other in a ring are refused with the ring") {
  const Directory dir("ring");
  dir.write("a.json", R"({"extends": "b.json"})");
  dir.write("b.json", R"({"extends": "./sub/../c.json"})");
  dir.write("c.json", R"({"extends": "a.json"})");
  dir.write("self.json", R"({"extends": "self.json"})");
  std::filesystem::create_directory(dir.at("sub"));
  CHECK(std::string(refused([&] { (void)load_scenario(dir.at("a.json")); }).what()) ==
        "scenarios extend each other in a ring: a.json -> b.json -> c.json -> a.json");
  CHECK(contains(refused([&] { (void)load_scenario(dir.at("self.json")); }).what(), "self.json -> self.json"));
  for (int i = 0; i < 20; ++i)
    dir.write(fmt::format("n{}.json", i), fmt::format(R"({{"extends": "n{}.json"}})", i + 1));
  CHECK(contains(refused([&] { (void)load_scenario(dir.at("n0.json")); }).what(), "more than 16"));
}
