// Results that are read again: `compare` reads steps, `merge` reads parts of searches and sweeps.

#include "core/api/memory.hpp"
#include "core/api/step.hpp"
#include "core/config/scenario.hpp"
#include "core/report/results/comparison.hpp"
#include "core/report/results/search_report.hpp"
#include "core/report/results/sweep_report.hpp"
#include "tests/fuzz/inputs.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/support/source_path.hpp"

namespace rehearse::fuzz::results {

namespace {

void run_result(std::string_view bytes) {
  ComparedStep read = read_result(std::string(bytes), "fuzzed.json");
  read.name = "one";
  ComparedStep other = read;
  other.name = "other";
  (void)comparison_document({std::move(read), std::move(other)});
}

void run_search(std::string_view bytes) { (void)read_search_part(std::string(bytes), "fuzzed.json"); }
void run_sweep(std::string_view bytes) { (void)merged_sweep({{"fuzzed.json", std::string(bytes)}}); }

std::vector<std::string> results() {
  EstimateOptions options;
  options.data = testing::source_path("");
  options.suggest = false;
  const Scenario s = parse_scenario(
      R"({"schema": "rehearse/scenario/v1", "model": "tiny_gpt2", "cluster": {"machine": "dgx_h100", "nodes": 1},
 "training": {"global_batch": 8}})",
      testing::source_path("scenarios/seed.json"));
  return {to_json(estimate(s, options)), to_json(memory(s, {options.data, false}))};
}

std::vector<std::string> parts() {
  return {R"({"schema": "rehearse/search/v1", "shard": {"part": 1, "of": 2}, "objective": "step_time", "plans": []})"};
}

std::vector<std::string> sweeps() {
  return {R"({"schema": "rehearse/sweep/v1", "shard": {"part": 1, "of": 1}, "keys": ["strategy.tp"], "points": []})"};
}

Target reads(void (*run)(std::string_view), std::vector<std::string> (*made)()) {
  return {.run = run, .made = made, .longest = 16384, .limits = {64'000'000, "64 deep", nullptr}};
}

const bool registered_results = targets().add({"results", "results of steps", {}, reads(run_result, results)});
const bool registered_search = targets().add({"search_parts", "parts of searches", {}, reads(run_search, parts)});
const bool registered_sweep = targets().add({"sweep_parts", "parts of sweeps", {}, reads(run_sweep, sweeps)});

}  // namespace

}  // namespace rehearse::fuzz::results
