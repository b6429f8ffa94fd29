// What the page asks is what core/api answers, and what goes wrong is told, never thrown.
#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "core/api.hpp"
#include "core/collective/nccl/nccl_search.hpp"
#include "core/playground/answers.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;
using nlohmann::json;

namespace {

constexpr const char* kTiny = "scenarios/tiny_gpt2.json";

json ask(const json& request) { return json::parse(playground::answer(request.dump())); }

}  // namespace

TEST_CASE("a step is answered as the facade answers it") {
  const json reply = ask({{"ask", "estimate"}, {"scenario", kTiny}, {"set", {"strategy.tp=2"}}});
  const json direct = json::parse(to_json(estimate(load_scenario_file(kTiny, {"strategy.tp=2"}))));
  CHECK(reply.at("answer") == direct);
  CHECK(reply.at("stated").at("strategy").at("tp") == 2);
  CHECK_FALSE(reply.at("roofline").at("points").empty());
  CHECK_FALSE(reply.contains("gantt"));
}

TEST_CASE("what is kept from one request to the next changes no answer") {
  const SessionOptions kept{.searches = std::make_shared<nccl::SystemSearches>()};
  for (const char* machine : {"dgx1v", "dgx_a100_80gb", "dgx1v"}) {
    const json request{{"ask", "estimate"},
                       {"scenario", "scenarios/llama3_8b_h100_8.json"},
                       {"set", {std::string("cluster.machine=") + machine, "training.precision=fp16_mixed"}}};
    CHECK(playground::answer(request.dump(), kept) == playground::answer(request.dump()));
  }
}

TEST_CASE("a scenario may come as an object") {
  const json object = ask({{"ask", "estimate"}, {"scenario", kTiny}}).at("stated");
  json moved = object;
  moved["model"] = "tiny_gpt2";
  const json reply = ask({{"ask", "estimate"}, {"scenario", moved}});
  REQUIRE_FALSE(reply.contains("error"));
  CHECK(reply.at("answer").at("step_time_s") ==
        ask({{"ask", "estimate"}, {"scenario", kTiny}}).at("answer").at("step_time_s"));
}

TEST_CASE("a played step has its pictures") {
  const json reply = ask({{"ask", "simulate"}, {"scenario", kTiny}, {"ranks", 2}});
  CHECK(reply.at("gantt").at("rows").size() <= 2);
  CHECK_FALSE(reply.at("course").at("rows").empty());
  CHECK_FALSE(reply.at("topology").at("links").empty());
}

TEST_CASE("two answers are compared without being played again") {
  const json request{{"ask", "simulate"}, {"scenario", kTiny}};
  const json a = ask(request).at("answer");
  const json reply = ask({{"ask", "compare"}, {"names", {"one", "other"}}, {"results", {a, a}}});
  CHECK(reply.at("answer").at("steps").size() == 2);
}

TEST_CASE("lessons and tasks are answered by their names") {
  CHECK_FALSE(ask({{"ask", "lesson"}, {"name", "naive_pipeline"}}).at("answer").at("says").empty());
  const json task = ask({{"ask", "task"}, {"name", "state_in_shards"}}).at("answer");
  CHECK(task.at("hints").size() == 3);
  const json tried =
      ask({{"ask", "task"}, {"name", "state_in_shards"}, {"set", {"strategy.zero_stage=1"}}}).at("answer");
  CHECK(tried.at("solved") == true);
}

TEST_CASE("a ring is told step by step, from each GPU's own parts to the sum of all on each") {
  const json ring = ask({{"ask", "ring"}, {"ranks", 5}});
  CHECK(ring.at("steps") == 8);
  CHECK(ring.at("sends").size() == 5 * 8);
  REQUIRE(ring.at("held").size() == 9);
  for (int rank = 0; rank < 5; ++rank)
    for (int piece = 0; piece < 5; ++piece) {
      CHECK(ring.at("held").front().at(rank).at(piece) == json{rank});
      CHECK(ring.at("held").back().at(rank).at(piece) == json{0, 1, 2, 3, 4});
    }
  // After the reduce-scatter each has one whole piece.
  for (const json& pieces : ring.at("held").at(4))
    CHECK(std::count_if(pieces.begin(), pieces.end(), [](const json& held) { return held.size() == 5; }) == 1);
}

TEST_CASE("a pipeline is told pass by pass, with what its stages wait") {
  const json f = ask({{"ask", "pipeline"}, {"schedule", "1f1b"}, {"stages", 4}, {"chunks", 1}, {"microbatches", 8}});
  CHECK(f.at("passes").size() == 4 * 2 * 8);
  CHECK(f.at("end") == 3 * (8 + 4 - 1));
  CHECK(f.at("work") == 3 * 8);
  CHECK(f.at("bubble_ratio") == Approx(3.0 / 8));
  CHECK(ask({{"ask", "pipeline"}, {"schedule", "dualpipe"}, {"stages", 3}, {"chunks", 1}, {"microbatches", 8}})
            .at("error")
            .at("what")
            .get<std::string>()
            .find("odd") != std::string::npos);
}

TEST_CASE("an exchange moves every row once, to ranks as full as their experts are popular") {
  const json even =
      ask({{"ask", "exchange"}, {"ranks", 4}, {"experts", 16}, {"chosen", 2}, {"tokens", 1000}, {"imbalance", "none"}});
  CHECK(even.at("arrive") == json{2000, 2000, 2000, 2000});
  const json zipf =
      ask({{"ask", "exchange"}, {"ranks", 4}, {"experts", 16}, {"chosen", 2}, {"tokens", 1000}, {"imbalance", "zipf"}});
  double rows = 0;
  std::set<std::pair<int, int>> pairs;
  for (const json& round : zipf.at("rounds"))
    for (const json& s : round) {
      rows += s.at("rows").get<double>();
      pairs.insert({s.at("from").get<int>(), s.at("to").get<int>()});
    }
  CHECK(rows == Approx(4 * 1000 * 2));
  CHECK(pairs.size() == 16);
  CHECK(zipf.at("arrive").at(0) > 2000);
  CHECK(ask({{"ask", "exchange"}, {"ranks", 3}, {"experts", 16}, {"chosen", 2}, {"tokens", 1}, {"imbalance", "none"}})
            .contains("error"));
}

TEST_CASE("what users get wrong is told with its place and what to do") {
  const json error = ask({{"ask", "estimate"}, {"scenario", kTiny}, {"set", {"strategy.tp=3"}}}).at("error");
  CHECK(error.at("kind") == static_cast<int>(ErrorKind::usage));
  CHECK_FALSE(error.at("what").get<std::string>().empty());
  CHECK(ask({{"ask", "nothing"}}).contains("error"));
  CHECK(json::parse(playground::answer("{")).contains("error"));
}

TEST_CASE("pickers offer what is there, and every shipped job as a whole scenario") {
  const json choices = ask({{"ask", "choices"}});
  for (const char* kind :
       {"scenarios", "models", "machines", "networks", "frameworks", "schedules", "lessons", "tasks", "keys"}) {
    INFO(kind);
    CHECK_FALSE(choices.at(kind).empty());
  }
  for (const json& s : choices.at("scenarios")) CHECK(s.at("scenario").contains("model"));
  CHECK(choices.at("page").at("words").contains("time"));
}
