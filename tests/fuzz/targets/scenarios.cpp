// A scenario and its overrides: `simulate FILE --set KEY=VALUE`.

#include "core/config/scenario.hpp"
#include "tests/fuzz/inputs.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/support/source_path.hpp"

namespace rehearse::fuzz::scenarios {

namespace {

void run_one(std::string_view bytes) {
  static const std::string folder = testing::source_path("scenarios"), origin = folder + "/fuzzed.json";
  const Overridden in = overridden(bytes);
  const Scenario read = parse_scenario(in.text, origin, in.overrides);
  require(parse_scenario(resolved_json(read, folder), origin) == read, "the resolved form is another scenario");
  require(parse_scenario(stated_json(read, folder), origin) == read, "what is stated is another scenario");
}

void read_file(const std::string& path) { (void)load_scenario(path); }

std::vector<std::string> made() {
  return {
      R"({"schema": "rehearse/scenario/v1", "model": "tiny_gpt2", "cluster": {"machine": "dgx_h100", "nodes": 2},
 "training": {"global_batch": 64}})"
      "\n--set strategy.tp=2\n--set strategy.overlap.pp=false\n--set strategy.layers_per_stage=[1, 2]"
      "\n--set training.global_batch=64\n--set cluster.network=rail_ndr\n--set kernels.attention=flash"
      "\n--set strategy.bucket=25MB\n--set strategy.placement=[\"tp\", \"pp\", \"dp\"]"};
}

const bool registered = targets().add({"scenarios",
                                       "scenarios with overrides",
                                       {},
                                       {.run = run_one,
                                        .seeds = {{"scenarios", ".json"}, {"tests/golden/bad", ".json"}},
                                        .made = made,
                                        .limits = {64'000'000, "64 deep", read_file}}});

}  // namespace

}  // namespace rehearse::fuzz::scenarios
