// Every shipped task is solved by its stated solution and not by a wrong one; the last hint says what to type.

#include <map>

#include <nlohmann/json.hpp>

#include "core/api/task.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/cli/support.hpp"

using namespace rehearse;
using test::rehearse_with;

namespace {

std::vector<std::string> attempt(const std::string& name, const std::vector<std::string>& changes) {
  std::vector<std::string> words{"task", name, "--backend", "analytic", "--format", "json"};
  for (const std::string& change : changes) words.insert(words.end(), {"--set", change});
  return words;
}

}  // namespace

TEST_CASE("there are forty tasks in six tracks", "[tasks]") {
  std::map<std::string, int> by_track;
  for (const std::string& file : task_files(find_data())) {
    const LessonTask task = load_task(file);
    INFO(file);
    CHECK(task.place == ++by_track[task.track]);  // Listed in the order of their places, none missing and none twice.
  }
  int all = 0;
  for (const std::string& track : task_tracks()) {
    INFO(track);
    CHECK(by_track[track] >= 5);
    all += by_track[track];
  }
  CHECK(all >= 40);
  CHECK(by_track.size() == task_tracks().size());
}

TEST_CASE("every task is solved by its solution, explained, and failed by a wrong one", "[tasks]") {
  for (const std::string& file : task_files(find_data())) {
    const LessonTask task = load_task(file);
    INFO(task.name);
    const auto solved = rehearse_with(attempt(task.name, task.solution));
    INFO(solved.where << ": " << solved.what << " " << solved.hint);
    REQUIRE(solved.code == 0);
    const auto json = nlohmann::json::parse(solved.out);
    CHECK(json.at("solved") == true);
    CHECK(json.at("says").size() == task.says.size());
    CHECK(json.at("says").size() >= 1);
    if (task.prediction) CHECK_FALSE(json.at("came_out").is_null());
    CHECK(json.at("plans").at(0).at("plan") == "start");
    CHECK(json.at("plans").at(1).at("fits") == true);
    CHECK_FALSE(task.wrong.empty());
    const auto failed = rehearse_with(attempt(task.name, task.wrong));
    CHECK(failed.code == 1);
    CHECK(nlohmann::json::parse(failed.out).at("solved") == false);
    CHECK(nlohmann::json::parse(failed.out).at("says").empty());
  }
}

TEST_CASE("a goal reached by what was to stay is no solution", "[tasks]") {
  // More machines, too, would make the optimizer's state fit; the task asks for another way.
  const auto o = rehearse_with(attempt("state_in_shards", {"strategy.zero_stage=1", "training.precision=bf16_mixed"}));
  CHECK(o.code == 1);
  CHECK(nlohmann::json::parse(o.out).at("beyond") == nlohmann::json::array({"training.precision"}));
}

TEST_CASE("hints come one by one, and the last one solves the task", "[tasks]") {
  for (const std::string& file : task_files(find_data())) {
    const LessonTask task = load_task(file);
    INFO(task.name);
    for (std::size_t n = 0; n <= task.hints.size(); ++n) {
      const auto o = rehearse_with({"task", task.name, "--hint", std::to_string(n), "--format", "json"});
      REQUIRE(o.code == 0);
      CHECK(nlohmann::json::parse(o.out).at("hints").size() == n);
    }
    // What a learner types who reads the last hint alone.
    std::vector<std::string> typed;
    std::string word;
    for (const char c : task.hints.back() + " ")
      if (c == ' ' || c == ',') {
        while (!word.empty() && word.back() == '.') word.pop_back();
        if (word.find('=') != std::string::npos) typed.push_back(word);
        word.clear();
      } else {
        word += c;
      }
    CHECK(typed == task.solution);
  }
}

TEST_CASE("a guess stands beside what came out, in the task's unit", "[tasks]") {
  auto words = attempt("state_in_shards", {"strategy.zero_stage=1"});
  words.insert(words.end(), {"--predict", "64GiB"});
  const auto json = nlohmann::json::parse(rehearse_with(words).out);
  CHECK(json.at("predicted") == 64.0 * 1024 * 1024 * 1024);
  words.back() = "64 apples";
  CHECK(rehearse_with(words).code == 2);
}

TEST_CASE("an unknown task names the nearest", "[tasks]") {
  const auto o = rehearse_with({"task", "state_in_shard"});
  CHECK(o.code == 2);
  CHECK(o.hint.find("state_in_shards") != std::string::npos);
}
