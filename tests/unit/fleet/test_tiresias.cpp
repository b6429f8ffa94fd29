// The 60 jobs of Tiresias and what its own simulator prints for them (data/README.md).

#include <cmath>
#include <map>
#include <numeric>

#include "tests/support/catch.hpp"
#include "tests/unit/fleet/fleets.hpp"

using namespace rehearse;
using namespace rehearse::fleet;

namespace {

Fleet trace(const std::string& name) {
  Fleet f;
  f.name = name;
  f.nodes = testing::nodes(2, 8);
  const auto rows = testing::csv(name + ".csv");
  for (std::size_t i = 1; i < rows.size(); ++i)
    f.jobs.push_back(
        testing::job(std::stoi(rows[i][0]), std::stod(rows[i][2]), std::stod(rows[i][5]), std::stoi(rows[i][1])));
  f.policy.placement = "count";
  return f;
}

struct Figures {
  double completion = 0, waiting = 0, makespan = 0;
  int preemptions = 0;
};

Figures figures(const Fleet& f) {
  const FleetResult r = run_fleet(f);
  Figures out;
  for (std::size_t i = 0; i < f.jobs.size(); ++i) {
    out.completion += r.jobs[i].completion(f.jobs[i].arrival).value() / static_cast<double>(f.jobs.size());
    out.waiting += r.jobs[i].waiting.value() / static_cast<double>(f.jobs.size());
    out.makespan = std::max(out.makespan, r.jobs[i].finished.value());
    out.preemptions += r.jobs[i].preemptions;
  }
  return out;
}

const std::map<std::string, std::pair<std::string, std::string>> kPolicies{
    {"fifo", {"arrival", "wait"}},
    {"fjf", {"arrival", "skip"}},
    {"sjf", {"smallest", "preempt"}},
    {"shortest", {"shortest", "preempt"}},
    {"shortest-gpu", {"shortest_gpu", "preempt"}},
    {"dlas", {"attained_time", "preempt"}},
    {"dlas-gpu", {"attained", "preempt"}}};

}  // namespace

TEST_CASE("mean completion times are those that Tiresias's simulator prints") {
  const auto rows = testing::csv("tiresias_expected.csv");
  REQUIRE(rows.size() == 15);
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const auto& row = rows[i];
    Fleet f = trace(row[0]);
    std::tie(f.policy.order, f.policy.rule) = kPolicies.at(row[1]);
    const Figures got = figures(f);
    CAPTURE(row[0], row[1], got.completion, row[5], got.waiting, row[7], got.makespan, row[8], got.preemptions, row[9]);
    // Two differ, for reasons that data/README.md gives: ties of "shortest-gpu" in the short trace, and the moment of
    // demotion of "dlas-gpu" in the long one.
    const bool exact = !(row[1] == "shortest-gpu" && row[0] == "tiresias_60_jobs") &&
                       !(row[1] == "dlas-gpu" && row[0] == "tiresias_60_jobs_long");
    CHECK(std::abs(got.completion / std::stod(row[5]) - 1) < (exact ? 0.0005 : 0.006));
    CHECK(std::abs(got.makespan / std::stod(row[8]) - 1) < 1e-9);
    if (exact) CHECK(got.preemptions == std::stoi(row[9]));
  }
}
