// The quick estimator against the analytic back end, which plays every rank, and against the memory of the whole
// Program.

#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "core/config/settings/strategy.hpp"
#include "core/estimate/quick/quick_estimate.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/estimate/estimate_draws.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

struct Row {
  Compared time;
  double memory = 0;  ///< Quick over whole, less 1.
  bool closed_form = false;
};

Row ask(const Drawn& d, QuickEstimator& quick, int steps) {
  const Program program = lower(d.workload, d.strategy, d.site->cluster);
  Row out{compare(d.name, program, *d.site, d.strategy, steps), 0, false};
  const QuickEstimate e = quick(d.strategy, d.workload.training);
  out.time.estimated = e.step_time.value();
  out.time.estimated_parts = e.breakdown;
  out.closed_form = e.closed_form;
  double fullest = 0;
  const MemoryRule rule;
  for (const RoleMemory& m : rule.peaks(program)) fullest = std::max(fullest, rule.needed(m).value());
  out.memory = e.needed.value() / fullest - 1;
  INFO(d.name);
  CHECK(std::abs(e.breakdown.total().value() / e.step_time.value() - 1) < 1e-9);
  for (const Seconds part : e.breakdown.seconds) CHECK(part.value() >= -1e-9 * e.step_time.value());
  Bytes sum{0};
  for (const Bytes b : e.memory.by_category) sum += b;
  CHECK(std::abs(sum / e.memory.peak - 1) < 1e-9);
  return out;
}

/// Largest differences of time and memory, and how many were not lowered.
struct Worst {
  Spread time;
  double memory = 0;
  int closed_form = 0;
};

Worst compare_quick(const std::string& title, int count, int steps, unsigned seed,
                    const std::function<Drawn(std::mt19937_64&)>& draw_one) {
  std::mt19937_64 random(seed);
  std::vector<Compared> times;
  Worst out;
  std::string fullest;
  for (int i = 0; i < count; ++i) {
    const Drawn d = draw_one(random);
    QuickEstimator quick(d.workload, d.site->cluster, d.site->cost, {}, steps);
    const Row row = ask(d, quick, steps);
    times.push_back(row.time);
    times.back().name += row.closed_form ? ", closed form" : ", lowered";
    out.closed_form += row.closed_form ? 1 : 0;
    if (std::abs(row.memory) >= std::abs(out.memory)) {
      out.memory = row.memory;
      fullest = d.name;
    }
  }
  out.time = print(title, times);
  fmt::print("  {} of {} in closed form; memory differs most, {:.4f} %, for {}\n", out.closed_form, count,
             100 * out.memory, fullest);
  return out;
}

/// GPT-3 175B in long pipelines, most of which are extrapolated from shorter ones.
Drawn draw_long(std::mt19937_64& random) {
  for (;;) {
    Drawn d;
    StrategySettings& s = d.strategy;
    s.tp = any_of(random, std::vector{1, 2, 4, 8});
    s.pp = any_of(random, std::vector{2, 4, 8, 16, 32});
    s.virtual_stages = any_of(random, std::vector{1, 2, 3, 4, 6, 12, 24});
    const int ranks = s.tp * s.pp < 32 ? 32 : s.tp * s.pp, rounds = any_of(random, std::vector{1, 2, 3, 5, 8});
    const int m = s.virtual_stages == 1 ? any_of(random, std::vector{1, 7, 24, 40, 96}) : rounds * s.pp;
    s.dp = s.dp_replicate = ranks / s.tp / s.pp;
    if (96 % (s.pp * s.virtual_stages) != 0 || std::int64_t{m} * ranks * s.virtual_stages > 24576) continue;
    s.schedule = s.virtual_stages > 1 ? "interleaved_1f1b" : any_of(random, std::vector<std::string>{"1f1b", "gpipe"});
    s.microbatch = any_of(random, std::vector{1, 2, 4});
    s.recompute = any_of(random, std::vector{Recompute::none, Recompute::selective, Recompute::full});
    s.sequence_parallel = s.tp > 1 && random() % 2 == 0;
    s.zero_stage = static_cast<int>(random() % 2);
    s.overlap.param_gather = s.zero_stage == 1 && random() % 2 == 0;
    d.workload.network = network("gpt3_175b");
    d.workload.training.global_batch = m * s.microbatch * s.dp;
    d.workload.training.sequence_length = 2048;
    d.site = &site({"dgx_a100_80gb", ranks / 8, "selene"});
    d.name = fmt::format("{} tp {} pp {} v {} dp {} m {} x {} zero {}{} {}recompute {}", s.schedule, s.tp, s.pp,
                         s.virtual_stages, s.dp, m, s.microbatch, s.zero_stage, s.overlap.param_gather ? " late" : "",
                         s.sequence_parallel ? "sp " : "", name_of(s.recompute));
    return d;
  }
}

void check(const Worst& w) {
  CHECK(w.time.worst < 0.01);
  CHECK(std::abs(w.memory) < 0.001);
}

}  // namespace

TEST_CASE("drawn strategies are estimated quickly as they are played") {
  for (const int steps : {1, 3}) {
    const Worst dense_worst =
        compare_quick("quick, dense", draws(12), steps, 11U + static_cast<unsigned>(steps), dense);
    check(dense_worst);
    CHECK(dense_worst.closed_form > draws(12) / 2);
    check(compare_quick("quick, context", draws(4), steps, 31U + static_cast<unsigned>(steps), draw_context));
    check(compare_quick("quick, experts", draws(4), steps, 41U + static_cast<unsigned>(steps), experts));
  }
  check(compare_quick("quick, images", draws(3), 1, 51, draw_images));
}

TEST_CASE("drawn ways to shard are estimated quickly as they are played") {
  for (const int steps : {1, 3}) {
    const Worst sharded =
        compare_quick("quick, sharded", draws(8), steps, 21U + static_cast<unsigned>(steps), draw_sharded);
    CHECK(sharded.time.median < 0.001);
    CHECK(sharded.time.worst < 0.02);
    CHECK(std::abs(sharded.memory) < 0.001);
    CHECK(sharded.closed_form >= draws(8) / 4);
  }
}

TEST_CASE("long pipelines are extrapolated as they are played") {
  const Worst long_worst = compare_quick("quick, long pipelines", draws(8), 1, 61, draw_long);
  check(long_worst);
  CHECK(long_worst.closed_form == draws(8));
  check(compare_quick("quick, long pipelines, period", draws(8), 2, 62, draw_long));
}

TEST_CASE("the more chunks, the longer the first of them wait for gathers of the step before") {
  const auto llama = [](std::mt19937_64&) {
    Drawn d;
    StrategySettings& s = d.strategy;
    s.tp = 8, s.pp = 4, s.virtual_stages = 10, s.dp = s.dp_replicate = 8;
    s.schedule = "interleaved_1f1b";
    s.sequence_parallel = s.overlap.param_gather = true;
    s.zero_stage = 1;
    d.workload.network = network("llama3_70b");
    d.workload.training.global_batch = 4 * s.dp;
    d.workload.training.sequence_length = 8192;
    d.site = &site({"dgx_a100_80gb", 32, "selene"});
    d.name = "llama3_70b, 10 chunks";
    return d;
  };
  const Worst worst = compare_quick("quick, late gathers", 1, 2, 0, llama);
  check(worst);
  CHECK(worst.closed_form == 1);
}

TEST_CASE("what is gathered again before its backward is told from tables") {
  for (const char* const model : {"llama3_8b", "mixtral_8x7b"}) {
    for (const int stages : {1, 2}) {
      const auto again = [&](std::mt19937_64&) {
        Drawn d;
        d.workload.network = network(model);
        StrategySettings& s = d.strategy;
        s.pp = stages;
        s.dp = s.dp_replicate = 16 / stages;
        s.zero_stage = 3;
        s.recompute = Recompute::full;
        s.zero3.reuse_distance = 1e6;
        d.workload.training.global_batch = 4 * s.dp;
        d.workload.training.sequence_length = 4096;
        d.site = &site({"dgx_h100", 2, "rail_ndr"});
        d.name = fmt::format("{}, {} stage(s)", model, stages);
        return d;
      };
      for (const int steps : {1, 2}) {
        const Worst worst = compare_quick("quick, gathered again", 1, steps, 0, again);
        check(worst);
        CHECK(worst.closed_form == 1);
      }
    }
  }
}

TEST_CASE("an answer does not depend on those given before") {
  std::mt19937_64 random(71);
  std::vector<Drawn> jobs;
  while (jobs.size() < 6) {
    Drawn d = draw_long(random);
    if (jobs.empty() || d.site == jobs.front().site) jobs.push_back(std::move(d));
  }
  const auto ask_all = [&](bool backwards) {
    QuickEstimator quick(jobs[0].workload, jobs[0].site->cluster, jobs[0].site->cost);
    std::vector<double> out(2 * jobs.size());
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const std::size_t j = backwards ? jobs.size() - 1 - i : i;
      const QuickEstimate e = quick(jobs[j].strategy, jobs[j].workload.training);
      out[2 * j] = e.step_time.value();
      out[2 * j + 1] = e.needed.value();
    }
    return out;
  };
  CHECK(ask_all(false) == ask_all(true));
}

TEST_CASE("steps of long pipelines are extrapolated only where they grow evenly with stages") {
  const Site& nodes = site({"dgx_a100_80gb", 16, "selene"});  // A stage is a node, so that messages are alike.
  struct Shape {
    const char* schedule;
    int microbatches;
    bool fsdp;
  };
  for (const Shape& shape : {Shape{"model_parallel", 32, false}, Shape{"model_parallel", 32, true},
                             Shape{"gpipe", 4, true}, Shape{"1f1b", 4, true}, Shape{"1f1b", 48, true}}) {
    Drawn d;
    d.name = fmt::format("{}, {} microbatches{}", shape.schedule, shape.microbatches, shape.fsdp ? ", fsdp" : "");
    d.site = &nodes;
    d.workload.network = network("gpt3_175b");
    d.workload.training.sequence_length = 2048;
    d.workload.training.global_batch = std::int64_t{8} * shape.microbatches;
    d.strategy.pp = 16;
    d.strategy.dp = 8;
    (shape.fsdp ? d.strategy.dp_shard : d.strategy.dp_replicate) = 8;
    d.strategy.fsdp.enabled = shape.fsdp;
    d.strategy.schedule = shape.schedule;
    QuickEstimator quick(d.workload, nodes.cluster, nodes.cost, {}, shape.fsdp ? 2 : 1);
    const Row row = ask(d, quick, shape.fsdp ? 2 : 1);
    INFO(d.name);
    CHECK(row.closed_form);
    CHECK(std::abs(row.time.difference()) < 0.01);
  }
}

TEST_CASE("what cannot be lowered is refused quickly, too") {
  const Site& two = site({"dgx_a100_80gb", 2, "selene"});
  Workload w;
  w.network = network("gpt2");
  w.training.global_batch = 16;
  w.training.sequence_length = 1024;
  QuickEstimator quick(w, two.cluster, two.cost);
  StrategySettings s;
  s.dp = s.dp_replicate = 4;
  s.tp = 2;
  s.pp = 2;
  CHECK(quick(s).closed_form);
  s.pp = 4;  // 32 GPUs.
  CHECK_THROWS_AS(quick(s), Error);
  s.dp = s.dp_replicate = 2;
  s.schedule = "interleaved_1f1b";
  s.virtual_stages = 2;  // 8 chunks of 12 layers.
  CHECK_THROWS_AS(quick(s), Error);
}
