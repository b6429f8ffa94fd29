// Evaluations per second of the closed form on one core: on a lowered Program, and with the lowering.
// Usage: bench_estimate [scenario.json ...]     Default: every scenario that ships, up to 4096 GPUs.

#include <ctime>

#include <fmt/core.h>

#include "tests/unit/cost/estimate_jobs.hpp"

namespace {

using namespace rehearse;

/// CPU seconds of this process: a busy machine doesn't show.
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// Runs `work` for half a second or more; returns how often per second, warm caches included.
template <class Work>
double per_second(Work work) {
  work();
  const double start = cpu_seconds();
  int runs = 0;
  while (cpu_seconds() - start < 0.5) {
    work();
    ++runs;
  }
  return runs / (cpu_seconds() - start);
}

void bench(const std::string& file) {
  const test::ScenarioJob job = test::load_job(file);
  if (job.site->cluster.device_count() > 4096) return;
  const Program program = lower(job.workload, job.strategy, job.site->cluster);
  double sum = 0;
  const double estimates = per_second([&] { sum += estimate(program, job.site->cost, job.strategy).step_time.value(); });
  const double both = per_second([&] { sum += estimate(lower(job.workload, job.strategy, job.site->cluster), job.site->cost, job.strategy).step_time.value(); });
  fmt::print("{:<28} {:>6} GPUs {:>5} microbatches   estimate {:>7.0f}/s   lower + estimate {:>7.0f}/s\n", job.name,
             job.site->cluster.device_count(), program.microbatches, estimates, sum > 0 ? both : 0.0);
}

}  // namespace

int main(int argc, char* argv[]) {
  if (argc == 1)
    for (const std::string& file : test::scenario_files()) bench(file);
  for (int i = 1; i < argc; ++i) bench(argv[i]);
}
