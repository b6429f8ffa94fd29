// Every shipped lesson runs, shows what it claims, and says nothing without its number; every replay stands beside its
// measurements.

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "core/api/lesson.hpp"
#include "core/report/formats/format.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/cli/support.hpp"

using namespace rehearse;
using test::rehearse_with;

namespace {

nlohmann::json answered(const std::string& verb, const std::string& file) {
  const auto o = rehearse_with({verb, file, "--backend", "analytic", "--format", "json"});
  INFO(o.where << ": " << o.what << " " << o.hint);
  REQUIRE(o.code == 0);
  return nlohmann::json::parse(o.out);
}

void check_width(const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    INFO(line);
    CHECK((columns_of(line) <= 80 || line.find(' ') == std::string::npos));
    at = end + 1;
  }
}

/// What readers may set, in lessons of scenarios and of fleets.
const std::vector<std::string>& changes_of(const Lesson& lesson) {
  static const std::vector<std::string> scenarios{"training.precision=fp32",      "strategy.overlap.grad_reduce=false",
                                                  "training.global_batch=512",    "strategy.bucket=1GB",
                                                  "strategy.recompute=full",      "training.optimizer=adamw",
                                                  "strategy.zero_stage=1",        "input.decode_per_core=10",
                                                  "training.gradient_dtype=fp32", "strategy.schedule=gpipe",
                                                  "strategy.microbatch=1",        "training.optimizer=sgd"};
  static const std::vector<std::string> fleets{
      "policy.quota=none",          "policy.placement=spread", "policy.quota=hard",         "policy.order=shortest",
      "policy.order=smallest",      "policy.rule=wait",        "policy.rule=easy",          "policy.rule=skip",
      "interruption.checkpoint=4h", "policy.order=attained",   "interruption.restart=2min", "policy.placement=first"};
  return lesson.plans.front().is_fleet ? fleets : scenarios;
}

/// How many of the changes make plans, for each of which every sentence stands with its claims or says that it does
/// not.
int check_changed(const Lesson& lesson, const std::string& file, const std::vector<std::string>& changes) {
  int played = 0;
  for (const std::string& change : changes) {
    INFO(file << " --set " << change);
    const auto o = rehearse_with({"lesson", file, "--backend", "analytic", "--set", change, "--format", "json"});
    if (o.code != 0) {
      CHECK(o.code == 2);  // The change makes no plan of it; never a defect.
      continue;
    }
    ++played;
    const auto json = nlohmann::json::parse(o.out);
    std::set<std::string> failed;
    for (const auto& s : json.at("shows"))
      if (s.at("holds") == false) failed.insert(s.at("claim").get<std::string>());
    const auto resting = std::count_if(lesson.says.begin(), lesson.says.end(), [&](const Saying& s) {
      return std::any_of(s.rests_on.begin(), s.rests_on.end(),
                         [&](const std::string& claim) { return failed.contains(claim); });
    });
    CHECK(json.at("left_out").size() >= std::size_t(resting));
    CHECK(json.at("says").size() + json.at("left_out").size() <= lesson.says.size());
    for (const auto& text : json.at("left_out"))
      CHECK((text.get<std::string>().ends_with("does not fit into memory.") ||
             std::any_of(failed.begin(), failed.end(),
                         [&](const std::string& c) { return text.get<std::string>().find(c) != std::string::npos; })));
  }
  return played;
}

}  // namespace

TEST_CASE("every lesson shows what it claims, in sentences that are all said", "[lessons]") {
  const auto files = lesson_files(find_data());
  REQUIRE(files.size() >= 10);
  for (const std::string& file : files) {
    INFO(file);
    const Lesson lesson = load_lesson(file);
    const auto json = answered("lesson", file);
    CHECK_FALSE(lesson.shows.empty());
    for (const auto& s : json.at("shows")) {
      INFO(s.dump());
      CHECK(s.at("holds") == true);
    }
    CHECK(json.at("says").size() >= 3);
    CHECK_FALSE(lesson.pictures.empty());
  }
}

TEST_CASE("under the reader's changes a sentence stays while its claims hold, and else says that it does not apply",
          "[lessons]") {
  for (const std::string& file : lesson_files(find_data())) {
    const Lesson lesson = load_lesson(file);
    const std::vector<std::string>& changes = changes_of(lesson);
    CHECK(check_changed(lesson, file, {changes.begin(), changes.begin() + 2}) == 2);
  }
}

TEST_CASE("so it is under each of the changes", "[.slow]") {
  for (const std::string& file : lesson_files(find_data())) {
    const Lesson lesson = load_lesson(file);
    REQUIRE(changes_of(lesson).size() >= 12);
    INFO(file);
    CHECK(check_changed(lesson, file, changes_of(lesson)) >= 10);
  }
}

TEST_CASE("words that only some plans bear out are left out for others", "[lessons]") {
  struct Changed {
    std::string lesson, change, claim;
  };
  // What is sent how often, and what is whole, is in words: no figure of the sentence would show that it is not so.
  for (const Changed& c : {Changed{"fsdp", "strategy.fsdp.reshard_after_forward=never", "gathered twice"},
                           Changed{"gpudirect", "strategy.zero_stage=3", "copies send once a step"},
                           Changed{"long_sequences", "strategy.zero_stage=3", "weights are not sharded"}}) {
    INFO(c.lesson << " --set " << c.change);
    const auto o = rehearse_with({"lesson", c.lesson, "--backend", "analytic", "--set", c.change, "--format", "json"});
    REQUIRE(o.code == 0);
    const auto left_out = nlohmann::json::parse(o.out).at("left_out");
    CHECK(std::any_of(left_out.begin(), left_out.end(), [&](const nlohmann::json& text) {
      return text.get<std::string>().find(c.claim) != std::string::npos;
    }));
  }
}

TEST_CASE("a plan's title says what the reader set of what the plans differ by", "[lessons]") {
  const auto titles = [](const std::string& change) {
    const auto o = rehearse_with({"lesson", "zero", "--backend", "analytic", "--set", change, "--format", "json"});
    REQUIRE(o.code == 0);
    std::vector<std::string> out;
    const auto json = nlohmann::json::parse(o.out);
    for (const auto& plan : json.at("plans")) out.push_back(plan.at("title"));
    return out;
  };
  const std::vector<std::string> changed = titles("strategy.zero_stage=1");
  CHECK(changed.at(0) == "everything whole on every GPU, now with strategy.zero_stage=1");
  CHECK(changed.at(1) == "optimizer state divided");
  CHECK(titles("training.global_batch=32").at(0) == "everything whole on every GPU");
}

TEST_CASE("lessons and replays fit a page of 80 columns, without colours", "[lessons]") {
  const auto data = find_data();
  for (const auto& [verb, files] : {std::pair{"lesson", lesson_files(data)}, {"replay", replay_files(data)}})
    for (const std::string& file : files) {
      INFO(file);
      const auto o = rehearse_with({verb, file, "--backend", "analytic"});
      REQUIRE(o.code == 0);
      CHECK(o.out.find('\033') == std::string::npos);
      check_width(o.out);
    }
}

TEST_CASE("every replay has rows with sources, and counts no claim", "[lessons]") {
  const auto files = replay_files(find_data());
  REQUIRE(files.size() >= 8);
  for (const std::string& file : files) {
    INFO(file);
    const auto json = answered("replay", file);
    REQUIRE_FALSE(json.at("rows").empty());
    int counted = 0;
    for (const auto& row : json.at("rows")) {
      INFO(row.dump());
      CHECK((row.at("standing") == "claim" || !row.at("source").get<std::string>().empty()));
      CHECK(row.at("predicted").is_null() == !row.at("skipped").is_null());
      if (!row.at("predicted").is_null()) CHECK(row.at("predicted") > 0);
      counted += row.at("standing") == "measured" && !row.at("predicted").is_null();
    }
    CHECK(json.at("summary").at("predicted_rows") == counted);
  }
}

TEST_CASE("a lesson whose claim fails says so; with the reader's own changes that is no failure", "[lessons]") {
  const auto failed =
      rehearse_with({"lesson", "gpus_2_to_8", "--backend", "analytic", "--set", "training.precision=fp32"});
  CHECK(failed.code == 0);
  const auto unknown = rehearse_with({"lesson", "funel"});
  CHECK(unknown.code == 2);
  CHECK(unknown.hint.find("funnel") != std::string::npos);
}
