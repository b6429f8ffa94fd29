// Words on the command line: what is understood, what is refused and how.

#include <filesystem>
#include <set>
#include <utility>

#include <unistd.h>

#include "tests/support/catch.hpp"
#include "tests/unit/cli/support.hpp"

using namespace rehearse;
using test::rehearse_with;

TEST_CASE("alone, it gives three commands to try", "[cli]") {
  const auto o = rehearse_with({});
  CHECK(o.code == 0);
  std::size_t commands = 0;
  for (std::size_t at = 0; (at = o.out.find("\n  rehearse ", at)) != std::string::npos; ++at) ++commands;
  CHECK(commands == 3);
}

TEST_CASE("every verb has help that starts with examples of itself and lists its options", "[cli]") {
  for (const cli::Verb& verb : cli::verbs()) {
    INFO(verb.name);
    const auto o = rehearse_with({verb.name, "--help"});
    CHECK(o.code == 0);
    REQUIRE_FALSE(verb.examples.empty());
    for (const std::string& example : verb.examples) {
      CHECK(example.find("rehearse " + verb.name) != std::string::npos);  // Or a launcher that starts it.
      CHECK(o.out.find(example) < o.out.find("usage:"));
    }
    for (const cli::Option& option : verb.options)
      CHECK(o.out.find(option.name.substr(option.name.find("--"))) != std::string::npos);
    CHECK(rehearse_with({verb.name, "-h"}).out == o.out);
    CHECK(rehearse_with({"--help"}).out.find(verb.summary.substr(0, 20)) != std::string::npos);
  }
}

TEST_CASE("a misspelt verb or option is answered with the nearest", "[cli]") {
  const auto verb = rehearse_with({"simulte", "x.json"});
  CHECK(verb.code == 2);
  CHECK(verb.hint.find("'simulate'") != std::string::npos);
  const auto option = rehearse_with({"memory", "x.json", "--fromat", "json"});
  CHECK(option.code == 2);
  CHECK(option.hint.find("'--format'") != std::string::npos);
  CHECK(rehearse_with({"memory", "x.json", "--fromat=json"}).hint.find("'--format'") != std::string::npos);
}

TEST_CASE("missing, surplus and repeated arguments are usage errors", "[cli]") {
  CHECK(rehearse_with({"memory"}).what == "SCENARIO is missing");
  CHECK(rehearse_with({"memory", "a.json", "b.json"}).what == "unexpected argument 'b.json'");
  CHECK(rehearse_with({"memory", "a.json", "--format"}).code == 2);
  CHECK(rehearse_with({"memory", "a.json", "--format", "json", "--format", "csv"}).where == "--format");
}

TEST_CASE("an unknown format is refused before any work", "[cli]") {
  const auto o = rehearse_with({"simulate", "no_such_file.json", "--format", "yaml"});
  CHECK(o.code == 2);
  CHECK(o.where == "--format");
}

TEST_CASE("an unknown back end is a usage error with the nearest", "[cli]") {
  const auto o = rehearse_with({"simulate", test::scenario("pipeline_1f1b"), "--backend", "analitic"});
  CHECK(o.code == 2);
  CHECK(o.hint.find("'analytic'") != std::string::npos);
}

TEST_CASE("results go to out, and nothing else does", "[cli]") {
  const auto o = rehearse_with({"memory", test::scenario("pipeline_1f1b"), "--format", "json"});
  CHECK(o.code == 0);
  CHECK(o.out.front() == '{');
  CHECK(o.out.substr(o.out.size() - 2) == "}\n");
}

TEST_CASE("every kind of listing lists something, in every form", "[cli]") {
  for (const char* kind : {"models", "clusters", "machines", "gpus", "networks", "strategies", "schedules", "backends",
                           "formats", "collectives", "keys", "glossary"})
    for (const char* format : {"table", "json", "csv", "md"}) {
      INFO(kind << " " << format);
      const auto o = rehearse_with({"list", kind, "--format", format});
      CHECK(o.code == 0);
      CHECK(std::count(o.out.begin(), o.out.end(), '\n') > 1);
    }
  CHECK(rehearse_with({"list", "modles"}).hint.find("'models'") != std::string::npos);
}

TEST_CASE("explain knows keys and named things", "[cli]") {
  CHECK(rehearse_with({"explain", "strategy.tp"}).out.find("strategy.tp") == 0);
  CHECK(rehearse_with({"explain", "model:gpt3_175b"}).out.find("174,615,846,912") != std::string::npos);
  CHECK(rehearse_with({"explain", "strategy:zero1"}).out.find("optimizer state") != std::string::npos);
  CHECK(rehearse_with({"explain", "machine:dgx_h101"}).hint.find("'dgx_h100'") != std::string::npos);
  CHECK(rehearse_with({"explain", "modle:gpt2"}).hint.find("'model'") != std::string::npos);
}

TEST_CASE("explain knows words of the field, after what has the name itself", "[cli]") {
  CHECK(rehearse_with({"explain", "pipeline bubble"}).out.find("bubble: ") == 0);
  CHECK(rehearse_with({"explain", "Allreduce"}).out.find("all-reduce: ") == 0);
  CHECK(rehearse_with({"explain", "all_reduce"}).out.find("all_reduce: ") == 0);
  CHECK(rehearse_with({"explain", "tp"}).out.find("strategy.tp") == 0);
  CHECK(rehearse_with({"explain", "term:tp"}).out.find("tensor parallelism: ") == 0);
  CHECK(rehearse_with({"explain", "bubbel"}).hint.find("'term:bubble'") != std::string::npos);
}

TEST_CASE("trace ranks outside the job are refused", "[cli]") {
  for (const char* ranks : {"8", "0-9", "x", "-1", "3-"})
    CHECK(rehearse_with({"simulate", test::scenario("pipeline_1f1b"), "--trace-ranks", ranks}).where ==
          "--trace-ranks");
}

TEST_CASE("a trace into a folder is a file for each rank, and only of the ranks that were asked for", "[cli]") {
  const auto folder = std::filesystem::temp_directory_path() / ("rehearse-traces-" + std::to_string(getpid()));
  const auto files = [&](const std::vector<std::string>& more) {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directory(folder);
    std::vector<std::string> words{"simulate", test::scenario("pipeline_1f1b"), "--trace", folder.string()};
    words.insert(words.end(), more.begin(), more.end());
    const auto o = rehearse_with(words);
    CHECK(o.what.empty());
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      names.insert(entry.path().filename().string());
    return std::pair(names, o.err);
  };
  CHECK(files({"--no-fold"}).first.size() == 4);  // A rank of each stage.
  CHECK(files({"--no-fold", "--trace-ranks", "0-7"}).first.size() == 8);
  CHECK(files({"--no-fold", "--trace-ranks", "3"}).first == std::set<std::string>{"rank3.json.gz"});
  CHECK(files({"--no-fold", "--trace-ranks", "0-1,6"}).first ==
        std::set<std::string>{"rank0.json.gz", "rank1.json.gz", "rank6.json.gz"});
  std::filesystem::remove_all(folder);
}
