#include "core/config/settings/kernels.hpp"
#include "core/config/settings/training.hpp"
#include "tests/unit/config/support_scenario.hpp"

using namespace rehearse;
using namespace rehearse::test;

TEST_CASE("the documented example reads into its settings") {
  const Scenario s = parsed(kGpt3);
  CHECK(s.model.file == "models/gpt3_175b/config.json");
  REQUIRE(s.cluster.parts.size() == 1);
  CHECK(s.cluster.parts[0] == ClusterPart{"dgx_a100_80gb", 128});
  CHECK(s.cluster.network == "selene");
  CHECK(s.training.global_batch == 1536);
  CHECK(s.training.precision == Precision::fp16_mixed);
  CHECK(s.training.tokens == 300e9);
  CHECK(s.strategy.dp == 16);
  CHECK(s.strategy.pp == 8);
  CHECK(s.strategy.schedule == "interleaved_1f1b");
  CHECK(s.strategy.virtual_stages == 3);
  CHECK(s.strategy.recompute == Recompute::full);
  CHECK(s.strategy.bucket == Bytes{25e6});
  CHECK(s.strategy.placement == std::vector<std::string>{"tp", "cp", "ep", "dp", "pp"});
  CHECK_FALSE(s.strategy.overlap.param_gather);
  CHECK(s.kernels.attention == AttentionKernel::unfused);
  CHECK(s.origin == "s.json");
}

TEST_CASE("what a file leaves out has the default of the settings") {
  const Scenario s = parsed(kLeast);
  const Scenario fresh;
  CHECK(s.strategy == fresh.strategy);
  CHECK(s.kernels == KernelSettings{});
  TrainingSettings expected;
  expected.global_batch = 8;
  CHECK(s.training == expected);
  CHECK(s.strategy.dp == 0);  // Automatic until the number of devices is known.
  CHECK(s.calibration.empty());
}

TEST_CASE("a model is a name, a file or an object") {
  CHECK(parsed(kLeast).model == ModelRef{"gpt2", {}, {}});
  CHECK(parsed(least_with("/model", "llama.json")).model == ModelRef{{}, "llama.json", {}});
  CHECK(parsed(least_with("/model", "zoo/llama")).model == ModelRef{{}, "zoo/llama", {}});
  CHECK(parsed(least_with("/model", "./llama")).model == ModelRef{{}, "./llama", {}});
  const ModelRef inlined = parsed(least_with("/model", {{"n_layer", 2}, {"hidden_size", 64}})).model;
  CHECK(inlined.inline_json == R"({"hidden_size":64,"n_layer":2})");
}

TEST_CASE("a cluster is a name, a file, an object or a list of parts") {
  CHECK(parsed(kLeast).cluster.name == "lab");
  CHECK(parsed(least_with("/cluster", "lab.json")).cluster.file == "lab.json");
  const nlohmann::json mixed = nlohmann::json::parse(R"([{"machine": "a", "nodes": 2}, {"machine": "b"}])");
  const std::vector<ClusterPart> parts{{"a", 2}, {"b", 1}};
  CHECK(parsed(least_with("/cluster", mixed)).cluster.parts == parts);
  const Scenario joined = parsed(least_with("/cluster", {{"parts", mixed}, {"network", "ib"}}));
  CHECK(joined.cluster.parts == parts);
  CHECK(joined.cluster.network == "ib");
}

TEST_CASE("tokens are a number or its text") {
  CHECK(parsed(least_with("/training/tokens", "300e9")).training.tokens == 3e11);
  CHECK(parsed(least_with("/training/tokens", 3e11)).training.tokens == 3e11);
  CHECK(parsed(least_with("/training/tokens", 300)).training.tokens == 300);
}

TEST_CASE("a placement may be a text or a list and leave out axes of one rank") {
  const std::vector<std::string> expected{"tp", "dp"};
  CHECK(parsed(least_with("/strategy/placement", "tp, dp")).strategy.placement == expected);
  CHECK(parsed(least_with("/strategy/placement", {"tp", "dp"})).strategy.placement == expected);
}

TEST_CASE("shares may be a list or a text, and are left out where nothing is given") {
  const std::vector<std::int64_t> expected{20, 24, 24, 20};
  CHECK(parsed(least_with("/strategy/layers_per_stage", expected)).strategy.layers_per_stage == expected);
  CHECK(parsed(least_with("/strategy/layers_per_stage", "20, 24,24,20")).strategy.layers_per_stage == expected);
  CHECK(parsed(least_with("/strategy/balance", "auto")).strategy.balance == Balance::automatic);
  CHECK(parsed(least_with("/strategy/tp", 1)).strategy.batch_per_replica.empty());
}

TEST_CASE("every enum text reads back, in the order of the enumerators") {
  const auto check = [](const std::string& pointer, const std::vector<std::string>& names, auto get) {
    for (std::size_t i = 0; i < names.size(); ++i)
      CHECK(static_cast<std::size_t>(get(parsed(least_with(pointer, names[i])))) == i);
  };
  check("/training/precision", names_of<Precision>(), [](const Scenario& s) { return s.training.precision; });
  check("/training/optimizer", names_of<Optimizer>(), [](const Scenario& s) { return s.training.optimizer; });
  check("/training/gradient_dtype", names_of<GradientDtype>(),
        [](const Scenario& s) { return s.training.gradient_dtype; });
  check("/training/statistics", names_of<StatisticsScope>(), [](const Scenario& s) { return s.training.statistics; });
  check("/strategy/recompute", names_of<Recompute>(), [](const Scenario& s) { return s.strategy.recompute; });
  check("/strategy/offload", names_of<Offload>(), [](const Scenario& s) { return s.strategy.offload; });
  check("/kernels/attention", names_of<AttentionKernel>(), [](const Scenario& s) { return s.kernels.attention; });
  CHECK(name_of(Precision::fp8_mixed) == "fp8_mixed");
  CHECK(name_of(Precision::bf16) == "bf16");
  CHECK(name_of(Recompute::selective) == "selective");
  CHECK(name_of(AttentionKernel::flash) == "flash");
  CHECK(name_of(GradientDtype::model) == "model");
  CHECK(name_of(Optimizer::adamw) == "adamw");
  CHECK(name_of(Offload::all) == "all");
  CHECK(name_of(StatisticsScope::global) == "global");
}
