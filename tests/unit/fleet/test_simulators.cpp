// Two other simulators' mean completion times (data/README.md): of Tiresias's policy in the simulator of Pollux, on 32
// workloads, and of four policies of Gavel in that of Shockwave.

#include <cmath>
#include <cstdlib>
#include <map>

#include "tests/support/catch.hpp"
#include "tests/unit/fleet/fleets.hpp"

using namespace rehearse;
using namespace rehearse::fleet;

namespace {

double mean_completion(const Fleet& f) {
  const FleetResult r = run_fleet(f, {.record = false, .progress = {}, .stop = {}});
  double sum = 0;
  for (std::size_t i = 0; i < f.jobs.size(); ++i) sum += r.jobs[i].completion(f.jobs[i].arrival).value();
  return sum / static_cast<double>(f.jobs.size());
}

double makespan(const Fleet& f) { return run_fleet(f, {.record = false, .progress = {}, .stop = {}}).end.value(); }

/// petuum/adaptdl, simulator/simulator.py and tiresias.py: 16 nodes of 4 GPUs, a look each minute, 30 s until work
/// begins after each start, two levels with a limit of 16 GPU-hours, jobs of a level in order of arrival.
Fleet pollux(const std::string& load, const std::string& workload) {
  Fleet f;
  f.name = "pollux";
  f.nodes = testing::nodes(16, 4);
  for (const auto& row : testing::csv("pollux_jobs.csv.gz")) {
    if (row[0] != load || row[1] != workload) continue;
    f.jobs.push_back(
        testing::job(static_cast<int>(f.jobs.size()), std::stod(row[4]), std::stod(row[5]), std::stoi(row[3])));
  }
  f.policy = {.order = "attained", .rule = "preempt", .placement = "count", .interval = Seconds{60}};
  f.policy.parameters = {{"attained.limit", 16 * 3600}, {"attained.limit2", 0}, {"attained.in_turn", 1}};
  f.interruption = {.restart = Seconds{30}, .start = Seconds{30}};
  return f;
}

/// uw-mad-dash/shockwave, scheduler/scheduler.py and reproduce/tacc_32gpus.sh: 32 GPUs, rounds of two minutes, 20 s of
/// which a job loses that did not run in the round before.
Fleet shockwave(const std::string& order) {
  Fleet f;
  f.name = "shockwave";
  f.nodes = testing::nodes(32, 1);
  const auto rows = testing::csv("shockwave_jobs.csv");
  for (std::size_t i = 1; i < rows.size(); ++i)
    f.jobs.push_back(
        testing::job(static_cast<int>(i), std::stod(rows[i][2]), std::stod(rows[i][3]), std::stoi(rows[i][1])));
  f.policy = {.order = order, .rule = "preempt", .placement = "count", .interval = Seconds{120}};
  f.policy.parameters = {{"shares.credit", 60}};
  f.interruption = {.restart = Seconds{20}, .start = Seconds{20}};
  return f;
}

}  // namespace

TEST_CASE("what we say, before anybody looked") {
  for (const char* load : {"0.5", "1.0", "1.5", "2.0"}) {
    double mean = 0;
    std::string all;
    for (const char* w : {"1", "2", "3", "4", "5", "6", "7", "8"}) {
      const double m = mean_completion(pollux(load, w));
      all += std::string(",") + std::to_string(std::lround(m));
      mean += m / 8;
    }
    WARN("pollux," << load << "," << std::lround(mean) << all);
  }
  for (const char* order : {"max_min", "equal_time", "finish_time", "makespan"}) {
    const Fleet f = shockwave(order);
    WARN("shockwave," << order << "," << std::lround(mean_completion(f)) << "," << std::lround(makespan(f)));
  }
}
