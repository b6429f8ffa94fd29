// A model's configuration: Hugging Face's config.json, or rehearse/network/v1.

#include "core/model/library.hpp"
#include "core/model/model_file.hpp"
#include "tests/fuzz/inputs.hpp"
#include "tests/fuzz/target.hpp"

namespace rehearse::fuzz::models {

namespace {

void read_file(const std::string& path) { (void)ModelLibrary({}).load(path); }

void run_one(std::string_view bytes) {
  const Network network = ModelLibrary({}).load(written("config.json", bytes));
  require(network.parameter_count() >= 0, "fewer than no parameters");
  require(network.active_parameter_count() <= network.parameter_count(), "a token meets more than all parameters");
  require(network.layers() >= 1, "no layers");
  const std::int64_t length = network.sequences ? 64 : 0;
  require(model_flops(network, 1, length).value() >= 0, "less than no work");
}

const bool registered = targets().add({"models",
                                       "model configurations (config.json, rehearse/network/v1)",
                                       {},
                                       {.run = run_one,
                                        .seeds = {{"scenarios/models", ".json"}},
                                        .limits = {64'000'000, "64 deep, 10,000 layers, 4,194,304 wide", read_file}}});

}  // namespace

}  // namespace rehearse::fuzz::models
