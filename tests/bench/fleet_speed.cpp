// How long a fleet takes to play, in seconds of one CPU: bench_fleet_speed [JOBS [ORDER RULE QUOTA PLACEMENT]].

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string>

#include <sys/resource.h>

#include <fmt/format.h>

#include "core/fleet/order.hpp"
#include "core/fleet/placement.hpp"
#include "core/fleet/quota.hpp"
#include "core/fleet/result.hpp"
#include "core/fleet/rule.hpp"

using namespace rehearse;
using namespace rehearse::fleet;

namespace {

/// 4,096 GPUs in nodes of 8, eight queues in two groups, jobs of 1 to 256 GPUs at 95 % load over sixty days for 10,000.
Fleet drawn(int jobs) {
  Fleet f;
  f.name = "speed";
  for (int n = 0; n < 512; ++n)
    f.nodes.push_back({.name = "n" + std::to_string(n), .gpus = 8, .rack = "r" + std::to_string(n / 32)});
  for (int g = 0; g < 2; ++g) f.queues.push_back({.name = "g" + std::to_string(g)});
  for (int q = 0; q < 8; ++q)
    f.queues.push_back({.name = "q" + std::to_string(q), .parent = "g" + std::to_string(q % 2), .guaranteed = 512});
  std::mt19937_64 draw(1);
  const int sizes[] = {1, 1, 1, 2, 4, 8, 8, 16, 32, 64, 128, 256};
  double gpu_seconds = 0;
  std::lognormal_distribution<double> length(0, 1.5);
  for (int i = 0; i < jobs; ++i) {
    Job j;
    j.name = std::to_string(i);
    j.queue = "q" + std::to_string(draw() % 8);
    j.priority = static_cast<int>(draw() % 3);
    j.request.gpus = sizes[draw() % std::size(sizes)];
    j.duration = Seconds{std::min(length(draw), 20.0)};
    j.estimate = j.duration * (1 + static_cast<double>(draw() % 100) / 50);
    gpu_seconds += j.duration.value() * j.request.gpus;
    f.jobs.push_back(j);
  }
  const double span = 60 * 86400.0 * jobs / 10'000, scale = 0.95 * 4096 * span / gpu_seconds;
  std::uniform_real_distribution<double> when(0, span);
  for (Job& j : f.jobs) {
    j.duration = j.duration * scale, j.estimate = j.estimate * scale;
    j.arrival = Seconds{when(draw)};
  }
  f.interruption = {Seconds{600}, Seconds{1800}, Seconds{60}};
  return f;
}

void time_one(Fleet& f, const std::string& order, const std::string& rule, const std::string& quota,
              const std::string& placement) {
  f.policy = {order, rule, quota, placement, {}, Seconds{0}};
  const std::clock_t begin = std::clock();
  const FleetResult r = run_fleet(f);
  const double took = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  double waited = 0;
  int stopped = 0;
  for (const JobResult& j : r.jobs)
    waited += j.waiting.value() / 3600 / static_cast<double>(r.jobs.size()), stopped += j.preemptions;
  fmt::print(
      "{:18} {:13} {:10} {:12} {:7.2f} s {:5} MB {:8} looks  waits {:7.2f} h  {:7} preemptions  useful {:.1f} %\n",
      order, rule, quota, placement, took, usage.ru_maxrss / 1024, r.passes, waited, stopped,
      100 * r.account.useful / r.account.capacity);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  Fleet f = drawn(argc > 1 ? std::atoi(argv[1]) : 10'000);
  if (argc > 5) {
    time_one(f, argv[2], argv[3], argv[4], argv[5]);
    return 0;
  }
  for (const auto& rule : rules().entries()) time_one(f, "arrival", rule.name, "none", "best_fit");
  for (const auto& order : orders().entries()) time_one(f, order.name, "preempt", "none", "best_fit");
  for (const auto& quota : quotas().entries())
    if (quota.name != "hard") time_one(f, "priority", "skip", quota.name, "best_fit");
  for (const auto& placement : placements().entries()) time_one(f, "arrival", "easy", "none", placement.name);
}
