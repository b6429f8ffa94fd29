// Evaluations per second of the closed form on one core: on a lowered Program, with the lowering, and of whole spaces
// by the quick estimator. Usage: bench_estimate [scenario.json ...]     Default: every scenario that ships, up to 4096
// GPUs.
//        bench_estimate --space [scenario.json] Every (tp, pp, dp, microbatch, virtual stages, recompute, ZeRO 1,
//        sequence parallelism) of
//                                               GPT-3 175B on 1,024 A100, or of the scenario given, for several global
//                                               batches.
//        bench_estimate --sharded [scenario.json] The same with ZeRO 2, ZeRO 3, FSDP and HSDP in place of ZeRO 1, of
//                                               Llama 3 8B on 64 H100.
//        bench_estimate --experts [scenario.json] Both, with the axes of experts, of Mixtral 8x7B on 64 H100.

#include <cmath>
#include <cstdio>
#include <ctime>
#include <tuple>

#include <fmt/core.h>

#include "core/base/error.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/config/settings/training.hpp"
#include "core/estimate/quick/quick_estimate.hpp"
#include "core/strategy/workload.hpp"
#include "tests/unit/estimate/estimate_jobs.hpp"

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
  const double estimates =
      per_second([&] { sum += estimate(program, job.site->cost, job.strategy).step_time.value(); });
  const double both = per_second([&] {
    sum +=
        estimate(lower(job.workload, job.strategy, job.site->cluster), job.site->cost, job.strategy).step_time.value();
  });
  fmt::print("{:<28} {:>6} GPUs {:>5} microbatches   estimate {:>7.0f}/s   lower + estimate {:>7.0f}/s\n", job.name,
             job.site->cluster.device_count(), program.microbatches, estimates, sum > 0 ? both : 0.0);
}

std::vector<int> divisors(std::int64_t n, std::int64_t limit) {
  std::vector<int> out;
  for (int d = 1; d <= std::min(n, limit); ++d)
    if (n % d == 0) out.push_back(d);
  return out;
}

/// One way to keep state: dp_shard is dp over `copies`.
struct Sharding {
  int zero = 0;
  bool fsdp = false;
  int copies = 1;
};
const std::vector<Sharding> kWhole{{0}, {1}}, kSharded{{2}, {3}, {0, true, 1}, {0, true, 2}},
    kAll{{0}, {1}, {2}, {3}, {0, true, 1}, {0, true, 2}};

/// Ranks that share experts and each of them, with and without sequence parallelism.
std::vector<std::tuple<int, int, bool>> expert_axes(const test::ScenarioJob& job, int tp, int dp) {
  const Routing* routing = job.workload.network.routing();
  if (routing == nullptr) return {{1, 1, false}, {1, 1, true}};
  std::vector<std::tuple<int, int, bool>> out;
  for (const int ep : divisors(routing->experts, dp * tp))
    for (const int etp : tp > 1 ? std::vector{1, tp} : std::vector{1})
      if (dp * tp % (ep * etp) == 0) out.insert(out.end(), {{ep, etp, false}, {ep, etp, true}});
  return out;
}

/// Legal by arithmetic; what strategies refuse is counted as refused.
std::vector<StrategySettings> space_of(const test::ScenarioJob& job, std::int64_t batch,
                                       const std::vector<Sharding>& shardings) {
  const int gpus = job.site->cluster.device_count(), layers = job.workload.network.layers();
  std::vector<StrategySettings> out;
  for (const int tp : divisors(gpus, 8))
    for (const int pp : divisors(gpus / tp, layers)) {
      const int dp = gpus / tp / pp;
      if (layers % pp != 0 || batch % dp != 0) continue;
      for (const int microbatch : divisors(batch / dp, 16))
        for (const int v : divisors(layers / pp, layers))
          for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full})
            for (const Sharding& sharding : shardings)
              for (const auto& [ep, etp, sp] : expert_axes(job, tp, dp)) {
                if ((v > 1 && (pp == 1 || batch / dp / microbatch % pp != 0)) || (sp && tp == 1) ||
                    ((sharding.zero > 0 || sharding.fsdp) && dp % (2 * sharding.copies) != 0))
                  continue;
                StrategySettings s = job.strategy;
                s.cp = 1;
                s.ep = ep;
                s.etp = etp;
                s.tp = tp;
                s.pp = pp;
                s.dp = s.dp_replicate = dp;
                s.microbatch = microbatch;
                s.virtual_stages = v;
                s.schedule = v > 1 ? "interleaved_1f1b" : "1f1b";
                s.recompute = recompute;
                s.zero_stage = sharding.zero;
                s.fsdp.enabled = sharding.fsdp;
                s.dp_replicate = sharding.fsdp ? sharding.copies : dp;
                s.dp_shard = dp / s.dp_replicate;
                s.sequence_parallel = sp;
                s.scatter_gather = false;
                out.push_back(s);
              }
    }
  return out;
}

/// One pass over the space of one batch size; prints what it took.
double sweep(QuickEstimator& quick, const std::vector<StrategySettings>& space, const TrainingSettings& training,
             const char* what) {
  int closed = 0, fits = 0, refused = 0;
  double best = INFINITY;
  const double start = cpu_seconds();
  for (const StrategySettings& s : space) {
    try {
      const QuickEstimate e = quick(s, training);
      closed += e.closed_form ? 1 : 0;
      fits += e.fits() ? 1 : 0;
      if (e.fits()) best = std::min(best, e.step_time.value());
    } catch (const Error&) {
      ++refused;
    }
  }
  const double seconds = cpu_seconds() - start;
  fmt::print(
      "  batch {:>5}: {:>6} scenarios, {} in closed form, {} refused, {} fit, best step {:.3f} s; {:.3f} s CPU, "
      "{:.0f}/s {}\n",
      training.global_batch, space.size(), closed, refused, fits, best, seconds,
      static_cast<double>(space.size()) / seconds, what);
  std::fflush(stdout);
  return seconds;
}

void bench_space(const std::string& file, const std::vector<Sharding>& shardings) {
  const test::ScenarioJob job = test::load_job(file);
  QuickEstimator quick(job.workload, job.site->cluster, job.site->cost);
  fmt::print("{} on {} GPUs\n", job.name, job.site->cluster.device_count());
  double all = 0, warm = 0;
  std::size_t count = 0, known = 0;
  for (const double factor :
       {1.0, 2.0, 0.5, 4.0, 1.5, 3.0, 6.0, 8.0, 5.0, 10.0, 12.0, 16.0, 2.5, 20.0, 24.0, 32.0, 14.0, 18.0, 9.0, 7.0}) {
    TrainingSettings training = job.workload.training;
    training.global_batch = static_cast<std::int64_t>(factor * static_cast<double>(training.global_batch));
    const std::vector<StrategySettings> space = space_of(job, training.global_batch, shardings);
    const double seconds =
        sweep(quick, space, training,
              count == 0 ? "with the tables of blocks, meshes and orders" : "with what tables are new");
    if (count > 0) {
      known += space.size();
      warm += seconds;
    }
    all += seconds;
    count += space.size();
  }
  fmt::print("  {} distinct scenarios in {:.3f} s CPU: {:.0f}/s, all tables included; {:.0f}/s after the first batch\n",
             count, all, static_cast<double>(count) / all, static_cast<double>(known) / warm);
}

void run(int argc, char* argv[]) {
  const std::string what = argc > 1 ? argv[1] : "";
  const bool sharded = what == "--sharded", experts = what == "--experts",
             space = what == "--space" || sharded || experts;
  const auto job = [&](const char* otherwise) {
    return argc > 2 ? argv[2] : test::kSource + "/scenarios/" + otherwise;
  };
  if (what == "--space" || argc == 1) bench_space(job("gpt3_175b_a100_1024.json"), kWhole);
  if (sharded || argc == 1) bench_space(job("llama3_8b_fsdp_h100_64.json"), kSharded);
  if (experts || argc == 1) bench_space(job("mixtral_8x7b_h100_64.json"), kAll);
  if (argc == 1)
    for (const std::string& file : test::scenario_files()) bench(file);
  for (int i = 1; i < argc && !space; ++i) bench(argv[i]);
}

}  // namespace

int main(int argc, char* argv[]) {
  try {
    run(argc, argv);
  } catch (const rehearse::Error& e) {
    fmt::print(stderr, "bench_estimate: {}\n", e.what());
    return 2;
  }
}
