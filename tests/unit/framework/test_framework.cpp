// Profiles of frameworks: how they are read, and what a scenario takes from them.

#include <unistd.h>
#include <filesystem>
#include <fstream>

#include "core/base/error.hpp"
#include "core/framework/framework.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"

using namespace rehearse;
namespace fs = std::filesystem;

namespace {

/// A folder of profiles, gone afterwards.
class Profiles {
 public:
  Profiles() : path_(fs::temp_directory_path() / ("rehearse_frameworks_" + std::to_string(::getpid()))) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~Profiles() { fs::remove_all(path_); }

  Profiles& add(const std::string& name, const std::string& members) {
    std::ofstream(path_ / (name + ".json"))
        << R"({"schema": "rehearse/framework/v1", "name": ")" << name << R"(", "title": "T", )" << members
        << R"(, "sources": {"s": {"text": "file and commit", "evidence": "published"}}})";
    return *this;
  }
  [[nodiscard]] Frameworks load() const { return Frameworks::load(path_); }
  [[nodiscard]] std::string refusal() const {
    try {
      (void)load();
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  }

 private:
  fs::path path_;
};

Scenario job(const std::string& more = "") {
  return parse_scenario(R"({"schema": "rehearse/scenario/v1", "model": "gpt2", "cluster": {"machine": "dgx_h100"},
    "training": {"global_batch": 8}, "strategy": {"tp": 2})" +
                            more + "}",
                        "job.json");
}

std::string taken(const Frameworks& all, const std::string& id, Scenario scenario, const std::string& key,
                  const std::string& generation = "hopper") {
  (void)take(all.find(id), scenario, {generation});
  return setting(scenario, key);
}

constexpr const char* kOne = R"("facts": {"framework.host": ["eager", "s"], "kernels.compile": [false, "s"]},
  "when": [{"if": {"strategy.tp": {"above": 1}}, "facts": {"framework.fused_norm": [false, "s"]}},
           {"if": {"gpu_generation": ["blackwell"]}, "facts": {"kernels.flash": ["cudnn", "s"]}},
           {"if": {"kernels.compile": true}, "facts": {"framework.fused_activation": [false, "s"]}}],
  "releases": [{"release": "0.1"}, {"release": "0.2.0", "facts": {"framework.host": ["megatron", "s"]}},
               {"release": "0.2.1"}])";

}  // namespace

TEST_CASE("every shipped profile loads, and each release names a date or a commit's code") {
  const Frameworks all = Frameworks::load(rehearse::testing::source_path("topologies/frameworks"));
  CHECK(all.all().size() > 100);
  for (const Framework& f : all.all()) {
    INFO(f.id());
    CHECK_FALSE(f.rules.empty());
    CHECK(f.release.find(' ') == std::string::npos);
    for (const FrameworkRule& rule : f.rules)
      for (const FrameworkFact& fact : rule.facts) CHECK(fact.source.text.size() > 10);
  }
}

TEST_CASE("a scenario takes what it does not state") {
  Profiles folder;
  const Frameworks all = folder.add("one", kOne).load();
  CHECK(taken(all, "one@0.1", job(), "framework.host") == "\"eager\"");
  CHECK(taken(all, "one@0.2", job(), "framework.host") == "\"megatron\"");
  CHECK(taken(all, "one", job(), "framework.host") == "\"megatron\"");
  CHECK(taken(all, "one", job(R"(, "framework": {"host": "eager"})"), "framework.host") == "\"eager\"");
  CHECK(all.find("one@0.2").id() == "one@0.2.1");
  CHECK_THROWS_AS(all.find("one@0.3"), Error);
  CHECK_THROWS_AS(all.find("two"), Error);
}

TEST_CASE("conditions see sizes of axes, the generation, and what holds always") {
  Profiles folder;
  const Frameworks all = folder.add("one", kOne).load();
  CHECK(taken(all, "one@0.1", job(), "framework.fused_norm") == "false");
  CHECK(taken(all, "one@0.1",
              parse_scenario(R"({"schema": "rehearse/scenario/v1", "model": "gpt2",
    "cluster": {"machine": "dgx_h100"}, "training": {"global_batch": 8}})",
                             "job.json"),
              "framework.fused_norm") == "true");
  CHECK(taken(all, "one@0.1", job(), "kernels.flash", "blackwell") == "\"cudnn\"");
  CHECK(taken(all, "one@0.1", job(), "kernels.flash") == "\"auto\"");
  CHECK(taken(all, "one@0.1", job(), "framework.fused_activation") == "true");
  CHECK(taken(all, "one@0.1", job(R"(, "kernels": {"compile": true})"), "framework.fused_activation") == "false");
}

TEST_CASE("two conditions that are met and disagree are an error, unless the scenario decides") {
  Profiles folder;
  const Frameworks all = folder
                             .add("one", R"("when": [
      {"if": {"strategy.tp": 2}, "facts": {"framework.host": ["eager", "s"]}},
      {"if": {"gpu_generation": "hopper"}, "facts": {"framework.host": ["megatron", "s"]}}],
      "releases": [{"release": "1"}, {"release": "2", "facts": {"framework.host": ["eager", "s"]}}])")
                             .load();
  CHECK_THROWS_AS(taken(all, "one@1", job(), "framework.host"), Error);
  CHECK(taken(all, "one@1", job(), "framework.host", "ampere") == "\"eager\"");
  CHECK(taken(all, "one@2", job(), "framework.host") == "\"eager\"");
}

TEST_CASE("a release builds on another profile, and says otherwise where it differs") {
  Profiles folder;
  folder.add("base", R"("facts": {"framework.host": ["megatron", "s"], "framework.products": ["pytorch", "s"]},
      "can": {"schedule": {"zb_h1": ["no", "s"], "1f1b": ["yes", "s"]}},
      "releases": [{"release": "1"}, {"release": "2", "facts": {"framework.products": ["transformer_engine", "s"]}}])");
  folder.add("a_user", R"("facts": {"framework.host": ["eager", "s"]}, "can": {"schedule": {"zb_h1": ["yes", "s"]}},
      "releases": [{"release": "x", "builds_on": "base@1"}, {"release": "y", "builds_on": "base@2"}])");
  const Frameworks all = folder.load();
  CHECK(taken(all, "a_user@x", job(), "framework.host") == "\"eager\"");
  CHECK(taken(all, "a_user@x", job(), "framework.products") == "\"pytorch\"");
  CHECK(taken(all, "a_user@y", job(), "framework.products") == "\"transformer_engine\"");
  CHECK(all.find("a_user@y").can("schedule", "zb_h1").able == Able::yes);
  CHECK(all.find("a_user@y").can("schedule", "1f1b").able == Able::yes);
  CHECK(all.find("a_user@y").can("schedule", "gpipe").able == Able::unknown);
  CHECK(all.find("base@1").can("schedule", "zb_h1").able == Able::no);
}

TEST_CASE("profiles are read strictly") {
  const auto refused = [](const std::string& members) {
    Profiles folder;
    return folder.add("one", members).refusal();
  };
  CHECK(refused(R"("facts": {"framework.host": ["eager", "s"]}, "releases": [{"release": "1"}])") == "accepted");
  CHECK(refused(R"("facts": {"framework.host": ["eager", "t"]}, "releases": [{"release": "1"}])") != "accepted");
  CHECK(refused(R"("facts": {"framework.host": ["fast", "s"]}, "releases": [{"release": "1"}])") != "accepted");
  CHECK(refused(R"("facts": {"framework.hosts": ["eager", "s"]}, "releases": [{"release": "1"}])") != "accepted");
  CHECK(refused(R"("releases": [{"release": "1"}])") != "accepted");  // Nothing cites the source.
  CHECK(refused(R"("facts": {"framework.host": ["eager", "s"]}, "releases": [])") != "accepted");
  CHECK(refused(R"("facts": {"framework.host": ["eager", "s"]}, "builds_on": "two", "releases": [{"release": "1"}])") !=
        "accepted");
}

TEST_CASE("PyTorch's checkpoints stop at the last value that backward reads") {
  Scenario s = job(R"(, "framework": {"checkpoints": "pytorch"})");
  s.strategy.recompute = Recompute::full;
  apply_checkpoints(s);
  CHECK(s.strategy.recompute == Recompute::selective);
  CHECK(s.strategy.recompute_modules == std::vector<std::string>{"layer"});
  s.stated.insert("strategy.recompute_modules");
  apply_checkpoints(s);
  CHECK(s.strategy.recompute_modules == std::vector<std::string>{"layer"});
}
