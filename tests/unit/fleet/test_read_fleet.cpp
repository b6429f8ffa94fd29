#include "core/base/error.hpp"
#include "core/fleet/read_fleet.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/fleet/fleets.hpp"

using namespace rehearse;
using namespace rehearse::fleet;

namespace {

const std::string kFile = R"({
  "schema": "rehearse/fleet/v1",
  "pools": [ { "name": "old", "machine": "dgx_a100_80gb", "nodes": 2 },
             { "name": "new", "gpus": 4, "model": "mine", "nodes": 3, "cpus": 64, "memory": "512GiB",
               "nodes_per_rack": 2 } ],
  "queues": [ { "name": "a", "guaranteed": 8, "borrow": 4, "reclaim": "lower_priority" } ],
  "policy": { "order": "attained", "rule": "preempt", "attained": { "limit": 100 } },
  "jobs": [ { "name": "x", "queue": "a", "gpus": 0.25, "duration": "2h", "models": ["mine"] },
            { "queue": "a", "gpus": 16, "min_gpus": 8, "pod_gpus": 8, "arrival": "1d", "duration": "90min" } ] })";

Fleet parse(const std::vector<std::string>& overrides = {}) {
  return parse_fleet(kFile, "f.json", overrides, Catalogue(testing::source_path("topologies")));
}

std::string refusal(const std::vector<std::string>& overrides) {
  try {
    (void)parse(overrides);
  } catch (const Error& e) {
    return e.where + ": " + e.what() + " [" + e.hint + "]";
  }
  return "accepted";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a fleet's file is read: machines of the catalogue, counted nodes, queues, jobs") {
  const Fleet f = parse();
  REQUIRE(f.nodes.size() == 5);
  CHECK(f.nodes[0].gpus == 8);
  CHECK(f.nodes[0].pool == "old");
  CHECK(has(f.nodes[0].model, "a100"));
  CHECK(f.nodes[2].cpu_milli == 64'000);
  CHECK(f.nodes[2].memory_mib == 512 * 1024);
  CHECK(f.nodes[2].rack == f.nodes[3].rack);
  CHECK(f.nodes[3].rack != f.nodes[4].rack);
  CHECK(f.queues[0].borrow == 4);
  CHECK(f.queues[0].limit == kUnlimited);
  CHECK(f.queues[0].reclaim == Reclaim::lower_priority);
  CHECK(f.policy.parameters.at("attained.limit") == 100);
  CHECK(f.jobs[0].request.milli == 250);
  CHECK(f.jobs[0].request.gpus == 1);
  CHECK(f.jobs[1].request.elastic());
  CHECK(f.jobs[1].name == "1");
  CHECK(f.jobs[1].arrival == Seconds{86400});
  check_fleet(f);
}

TEST_CASE("mistakes in a fleet's file say where they are and what is valid") {
  CHECK(has(refusal({"policy.rule=eazy"}), "f.json: /policy/rule"));
  CHECK(has(refusal({"policy.rule=eazy"}), "easy"));
  CHECK(has(refusal({"policy.attained.limits=3"}), "limit"));
  CHECK(has(refusal({"jobs.0.gpu=3"}), "gpus"));
  CHECK(has(refusal({"jobs.0.gpus=1.5"}), "1.5 GPUs"));
  CHECK(has(refusal({"jobs.0.duration=7"}), "f.json: /jobs/0/duration"));
  CHECK(has(refusal({"pools.0.machine=dgx_a1000"}), "f.json: /pools/0/machine"));
  CHECK(has(refusal({"cluster=selene"}), "stands beside"));
  CHECK(has(refusal({"jobs=[]"}), "no job"));
  CHECK(has(refusal({"interruption={\"write\": \"5min\"}"}), "how often"));
  CHECK(refusal({}) == "accepted");
}

TEST_CASE("drawn jobs are the same for a seed, and come as often as stated") {
  const std::string generate =
      R"(generate={"count": 20000, "every": "10min", "seed": 7,
                   "kinds": [{"queue": "a", "gpus": 1, "mean": "2h", "share": 3},
      {"queue": "a", "gpus": 4, "duration": "1h", "share": 1}]})";
  const Fleet f = parse({generate, "jobs=[]"}), again = parse({generate, "jobs=[]"});
  REQUIRE(f.jobs.size() == 20000);
  CHECK(f.jobs[9].arrival == again.jobs[9].arrival);
  CHECK(f.jobs.back().arrival.value() / 20000 == Approx(600).epsilon(0.02));
  double large = 0, mean = 0;
  for (const Job& j : f.jobs) j.request.gpus == 4 ? large += 1 : mean += j.duration.value() / 15000;
  CHECK(large / 20000 == Approx(0.25).epsilon(0.05));
  CHECK(mean == Approx(7200).epsilon(0.03));
}

TEST_CASE("a table of jobs is read by the columns that are named") {
  const std::string file = testing::source_path("tests/unit/fleet/data/tiresias_60_jobs.csv");
  const std::string table =
      R"(table={"file": ")" + file +
      R"(", "columns": {"name": "job_id", "gpus": "num_gpu", "arrival": "submit_time", "duration": "duration"}})";
  const Fleet f = parse({table, "jobs=[]", "queues=[]"});
  REQUIRE(f.jobs.size() == 60);
  CHECK(f.jobs[1].request.gpus == 8);
  CHECK(f.jobs[1].arrival == Seconds{30});
  CHECK(f.jobs[49].duration == Seconds{1800});
  CHECK(has(refusal({table + "", "table.columns.gpus=num_gpus"}), "num_gpu"));
}
