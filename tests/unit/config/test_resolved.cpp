// The resolved form: everything written out, in one order, and reading it changes nothing.

#include <random>

#include "core/base/index.hpp"
#include "tests/unit/config/support_scenario.hpp"

using namespace rehearse;
using namespace rehearse::test;
using nlohmann::json;

namespace {

/// Draws scenarios that are valid by construction: sizes are powers of two, the batch a larger one.
class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}

  json scenario() {
    json s = {{"schema", kScenarioSchema},
              {"model", model()},
              {"cluster", cluster()},
              {"training", {{"global_batch", 1 << 20}}}};
    maybe(s, "/strategy/tp", power());
    maybe(s, "/strategy/pp", power());
    maybe(s, "/strategy/dp", coin() ? json("auto") : json(power()));
    maybe(s, "/strategy/microbatch", power());
    maybe(s, "/strategy/virtual_stages", power());
    maybe(s, "/strategy/zero_stage", number(0, 3));
    maybe(s, "/strategy/recompute", one_of(names_of<Recompute>()));
    maybe(s, "/strategy/offload", one_of(names_of<Offload>()));
    maybe(s, "/strategy/bucket", std::to_string(number(1, 1000000)) + one_of({"B", "KiB", "MB", "Mib", " kb"}));
    maybe(s, "/strategy/placement", one_of({"tp,cp,ep,dp,pp", "pp,tp,dp", "dp,pp,tp,tile_w,tile_h"}));
    maybe(s, "/strategy/layers_per_stage", json::array({number(1, 99), number(1, 99)}));
    maybe(s, "/strategy/batch_per_replica", json::array({number(1, 99)}));
    maybe(s, "/strategy/balance", one_of(names_of<Balance>()));
    maybe(s, "/strategy/sequence_parallel", coin());
    maybe(s, "/strategy/scatter_gather", coin());
    maybe(s, "/strategy/deferred_head_gradients", number(0, 9));
    maybe(s, "/strategy/overlap/pp", coin());
    maybe(s, "/strategy/overlap/grad_reduce", coin());
    maybe(s, "/training/precision", one_of(names_of<Precision>()));
    maybe(s, "/training/optimizer", one_of(names_of<Optimizer>()));
    maybe(s, "/training/gradient_dtype", one_of(names_of<GradientDtype>()));
    maybe(s, "/training/statistics", one_of(names_of<StatisticsScope>()));
    maybe(s, "/training/clip_gradients", coin());
    maybe(s, "/training/seed", number(0, 1000000000) * 9007199);
    maybe(s, "/training/tokens", std::uniform_real_distribution<double>(0, 1e15)(random_));
    maybe(s, "/kernels/attention", one_of(names_of<AttentionKernel>()));
    maybe(s, "/kernels/cuda_graphs", coin());
    maybe(s, "/calibration", one_of({"a100", "p/h100.json"}));
    return s;
  }

 private:
  std::int64_t number(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  bool coin() { return number(0, 1) == 1; }
  std::int64_t power() { return std::int64_t{1} << number(0, 5); }
  std::string one_of(const std::vector<std::string>& names) {
    return nth(names, number(0, static_cast<std::int64_t>(names.size()) - 1));
  }
  void maybe(json& s, const char* pointer, json value) {
    if (coin()) s[json::json_pointer(pointer)] = std::move(value);
  }
  json model() {
    if (coin()) return one_of({"gpt2", "m/config.json", "./llama", "/abs/config.json"});
    return {{"hidden_size", number(1, 1 << 20)},
            {"eps", 1e-5},
            {"layers", json::array({{{"kind", "linear"}}, "x", nullptr})}};
  }
  json cluster() {
    const json part{{"machine", one_of({"dgx_h100", "m/x.json"})}, {"nodes", number(1, 9999)}};
    switch (number(0, 3)) {
      case 0: return "lab";
      case 1: return "c/lab.json";
      case 2: return json::array({part, part});
      default: return {{"machine", "dgx"}, {"nodes", number(1, 9999)}, {"network", "ib"}};
    }
  }
  std::mt19937_64 random_;
};

}  // namespace

TEST_CASE("the resolved form reads back as the same scenario") {
  Draw draw(11);
  for (int i = 0; i < 500; ++i) {
    const std::string text = draw.scenario().dump();
    CAPTURE(text);
    const Scenario s = parsed(text);
    const std::string resolved = resolved_json(s);
    const Scenario again = parse_scenario(resolved, "resolved.json");
    CHECK(again == s);
    CHECK(resolved_json(again) == resolved);
  }
}

TEST_CASE("the resolved form writes every default in the order of the documented example") {
  Scenario s = parsed(kGpt3);
  resolve_axes(s, 1024);
  const std::string text = resolved_json(s);
  CHECK(text.starts_with(
      "{\n  \"schema\": \"rehearse/scenario/v1\",\n  \"model\": \"models/gpt3_175b/config.json\",\n  \"cluster\": {"));
  CHECK(text.ends_with("}\n"));
  CHECK(contains(text, "\"tokens\": 300000000000"));
  CHECK(contains(text, "\"bucket\": \"25MB\""));
  CHECK(contains(text, "\"dp_replicate\": 16"));
  CHECK(text.find("\"training\"") < text.find("\"strategy\""));
  CHECK(text.find("\"strategy\"") < text.find("\"kernels\""));
  CHECK(parsed(text) == s);
  const json document = json::parse(text);
  for (const KeyHelp& k : scenario_keys()) {
    if (k.key.starts_with("cluster.") || k.fallback.empty()) continue;  // Absence is its meaning.
    std::string pointer = "/" + k.key;
    for (char& c : pointer) c = c == '.' ? '/' : c;
    CAPTURE(pointer);
    CHECK(document.contains(json::json_pointer(pointer)));
  }
}

TEST_CASE("what replaces a machine's own settings is written only where it was said") {
  Scenario s = parsed(kGpt3, {"cluster.gpudirect_rdma=false"});
  CHECK(s.cluster.gpudirect_rdma == std::optional(false));
  CHECK_FALSE(s.cluster.pxn.has_value());
  const std::string text = resolved_json(s);
  CHECK(contains(text, "\"gpudirect_rdma\": false"));
  CHECK_FALSE(contains(text, "pxn"));
  CHECK(parsed(text) == s);
}

TEST_CASE("file references are written relative to where the text is saved") {
  const Scenario s = parsed(least_with("/model", "models/gpt3/config.json"));
  CHECK(json::parse(resolved_json(s, "out")).at("model") == "../models/gpt3/config.json");
  CHECK(json::parse(resolved_json(s, "models/gpt3")).at("model") == "config.json");
  const Scenario folder = parsed(least_with("/model", "models/gpt3"));
  CHECK(json::parse(resolved_json(folder, "models")).at("model") == "./gpt3");  // Not the registered model gpt3.
  CHECK(parse_scenario(resolved_json(s, "out"), "out/s.json") == s);
}

TEST_CASE("the origin is no part of the value") {
  CHECK(parse_scenario(kLeast, "a.json") == parse_scenario(kLeast, "b.json"));
}
