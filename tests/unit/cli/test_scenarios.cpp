// Every shipped scenario gives a whole answer on every simulated back end, the same bytes twice, and comes back from
// its resolved form.

#include <algorithm>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "core/play/backend.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"
#include "tests/unit/cli/support.hpp"

using namespace rehearse;
using test::rehearse_with;

namespace {

std::vector<std::string> shipped() {
  std::vector<std::string> out;
  for (const char* folder : {"/scenarios", "/scenarios/published"})
    for (const auto& entry : std::filesystem::directory_iterator(rehearse::testing::source_path("") + folder))
      if (entry.path().extension() == ".json" && entry.path().string().find("102400") == std::string::npos)
        out.push_back(entry.path().string());  // That one: bench_scale.
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> simulated_backends() {
  std::vector<std::string> out;
  (void)rehearse_with({});
  for (const char* name : {"analytic", "simgrid"})
    if (const auto known = backends().names(); std::find(known.begin(), known.end(), name) != known.end())
      out.emplace_back(name);
  return out;
}

}  // namespace

TEST_CASE("every shipped scenario is answered, and its breakdown adds up to the step", "[scenarios]") {
  REQUIRE(shipped().size() > 10);
  for (const std::string& file : shipped())
    for (const std::string& backend : simulated_backends()) {
      // A benchmark: minutes of sharing links.
      if (backend == "simgrid" && file.find("16384") != std::string::npos) continue;
      if (file.find("2048") != std::string::npos) continue;  // Exchanges of thousands of ranks: benchmarks.
      INFO(file << " on " << backend);
      const auto o = rehearse_with({"simulate", file, "--backend", backend, "--format", "json"});
      INFO(o.err << o.where << ": " << o.what);
      REQUIRE(o.code == 0);
      const auto json = nlohmann::json::parse(o.out);
      const double step = json.at("step_time_s");
      double sum = 0;
      for (const auto& [category, seconds] : json.at("breakdown").items()) sum += seconds.get<double>();
      CHECK(step > 0);
      CHECK(sum == Approx(step).epsilon(1e-9));
      CHECK(json.at("fits") == true);
      CHECK(json.at("mfu") > (file.find("tiny") == std::string::npos ? 0.05 : 0.0));
      // Model FLOPs are three forward passes. A network over images needs no gradient of its images, so that its first
      // layer takes two of them: at most 3 / 2, were there no other layer.
      CHECK(json.at("mfu") <= json.at("hfu").get<double>() * (json.at("tokens_per_s") > 0 ? 1 + 1e-12 : 1.5));
      CHECK(json.at("hfu") < 1);
      CHECK(json.at("backend") == backend);
    }
}

TEST_CASE("the same scenario gives the same bytes twice", "[scenarios]") {
  for (const std::string& backend : simulated_backends()) {
    const std::vector<std::string> words{
        "simulate", test::scenario("llama3_70b_h100_64"), "--backend", backend, "--format", "json"};
    CHECK(rehearse_with(words).out == rehearse_with(words).out);
  }
}

TEST_CASE("the resolved scenario is itself a scenario with the same answer", "[scenarios]") {
  const std::string file = test::scenario("llama3_8b_h100_8");
  const auto resolved = rehearse_with({"simulate", file, "--dry-run"});
  REQUIRE(resolved.code == 0);
  const auto json = nlohmann::json::parse(resolved.out);
  CHECK(json.at("strategy").at("dp") == 4);
  CHECK(json.at("training").at("sequence_length") == 8192);
  const auto answer = nlohmann::json::parse(rehearse_with({"memory", file, "--format", "json"}).out);
  CHECK(answer.at("scenario").at("strategy") == json.at("strategy"));
}

TEST_CASE("1F1B and GPipe take the same time on equal stages, and 1F1B holds less", "[scenarios]") {
  const auto gpipe = nlohmann::json::parse(
      rehearse_with({"simulate", test::scenario("pipeline_gpipe"), "--backend", "analytic", "--format", "json"}).out);
  const auto one_f_one_b = nlohmann::json::parse(
      rehearse_with({"simulate", test::scenario("pipeline_1f1b"), "--backend", "analytic", "--format", "json"}).out);
  CHECK(one_f_one_b.at("step_time_s").get<double>() == Approx(gpipe.at("step_time_s").get<double>()).epsilon(0.02));
  const auto activations = [](const nlohmann::json& j) {
    return j.at("memory").back().at("by_category").at("activations").get<double>();
  };
  CHECK(activations(one_f_one_b) < 0.7 * activations(gpipe));
}
