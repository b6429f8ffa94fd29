// A profile of a framework's releases.

#include <filesystem>

#include "core/framework/framework.hpp"
#include "tests/fuzz/inputs.hpp"
#include "tests/fuzz/target.hpp"

namespace rehearse::fuzz::frameworks {

namespace {

/// Alone in its folder: all files of one are read.
void read_file(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path() / "frameworks";
  std::filesystem::create_directories(folder);
  std::filesystem::rename(path, folder / "fuzzed.json");
  (void)Frameworks::load(folder);
}

void run_one(std::string_view bytes) {
  static const std::filesystem::path folder =
      std::filesystem::path(written("frameworks.path", "")).parent_path() / "frameworks";
  std::filesystem::create_directories(folder);
  const Frameworks all =
      Frameworks::load(std::filesystem::path(written("frameworks/fuzzed.json", bytes)).parent_path());
  for (const Framework& f : all.all()) {
    require(all.find(f.id()).release == f.release, "a release is not found by its own name");
    Scenario scenario = parse_scenario(
        R"({"schema": "rehearse/scenario/v1", "model": "tiny_gpt2", "cluster": {"machine": "dgx_h100", "nodes": 1},
            "training": {"global_batch": 8}})",
        "fuzzed.json");
    resolve_axes(scenario, 8);
    (void)take(f, scenario, {.gpu_generation = "hopper"});
    (void)lacking(f, scenario);
  }
}

/// Shipped profiles, under the one name that the reader is asked for.
const bool registered =
    targets().add({"frameworks",
                   "profiles of frameworks",
                   {},
                   {.run = run_one,
                    .seeds = {{"topologies/frameworks", ".json"}, {"tests/golden/toy/topologies/frameworks", ".json"}},
                    .longest = 32768,
                    .limits = {64'000'000, "64 deep", read_file}}});

}  // namespace

}  // namespace rehearse::fuzz::frameworks
