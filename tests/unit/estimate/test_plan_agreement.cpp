// The closed form against the analytic back end on plans drawn from whole search spaces: dense, sharded, with experts.
// REHEARSE_DRAWS draws more; tests/bench/plans.cpp prints what each takes, too.

#include "core/estimate/long_step.hpp"
#include "core/price/stage_memory.hpp"
#include "core/schedule/schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/estimate/plan_draws.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

/// What the player goes through in a fraction of a second for each plan: entries, of all ranks together.
double most_played(const ScenarioJob& job) { return std::max(2e4, 100.0 * job.site->cluster.device_count()); }

/// On many GPUs a plan takes the player seconds: `few` there, `many` elsewhere.
void hold_spaces(int many, int few) {
  for (const std::string& scenario : kSpaces) {
    const ScenarioJob from = load_job(kSource + "/scenarios/" + scenario + ".json");
    const int plans = draws(from.site->cluster.device_count() <= 256 ? many : few);
    if (plans == 0) continue;
    std::mt19937_64 random(11);
    std::vector<Compared> rows;
    const double most = most_played(from);
    for (int i = plans; i > 0; --i) rows.push_back(compare_plan(from, draw_plan(from, random, most)));
    INFO(scenario);
    const Spread s = print(scenario, rows);
    CHECK(s.median < 0.001);
    const auto off =
        std::count_if(rows.begin(), rows.end(), [](const Compared& r) { return std::abs(r.difference()) > 0.02; });
    CHECK(static_cast<double>(off) <= 0.01 * static_cast<double>(rows.size()));
    for (const Compared& row : rows) {
      INFO(row.name);
      CHECK(std::abs(row.estimated_parts.total().value() / row.estimated - 1) < 1e-9);
      for (const Seconds part : row.estimated_parts.seconds) CHECK(part.value() >= -1e-9 * row.estimated);
    }
  }
}

}  // namespace

TEST_CASE("plans of whole spaces are estimated as they are played") { hold_spaces(5, 0); }

TEST_CASE("many plans of whole spaces are estimated as they are played", "[.slow]") { hold_spaces(200, 10); }

TEST_CASE("uneven stages, several kinds of layers and paired passes are told from tables") {
  int told = 0, uneven = 0, paired = 0, kinds = 0;
  for (const auto& [scenario, plans] :
       {std::pair<std::string, int>{"qwen3_235b_a22b_h100_256", 9}, {"deepseek_v3_h800_2048", 3}}) {
    const ScenarioJob from = load_job(kSource + "/scenarios/" + scenario + ".json");
    std::mt19937_64 random(3);
    for (int i = 0; i < draws(plans);) {
      const DrawnPlan d = draw_plan(from, random, most_played(from));
      const StrategySettings& s = d.strategy;
      if (s.offload != Offload::none) continue;
      ++i;
      const MemoryRule rule(from.site->cluster);
      QuickEstimator quick(d.workload, from.site->cluster, from.site->cost, rule, steps_in_period(s, d.workload.input));
      const std::optional<QuickEstimate> e = quick.closed_form(s);
      if (!e) continue;
      ++told;
      uneven += s.uneven_layers ? 1 : 0;
      paired += schedules().at(s.schedule).value->pairs() ? 1 : 0;
      kinds += scenario.starts_with("deepseek") ? 1 : 0;
      INFO(scenario << " " << plan_label(s));
      CHECK(e->step_time.value() == Approx(compare_plan(from, d).analytic).epsilon(0.01));
      CHECK(e->breakdown.total().value() == Approx(e->step_time.value()));
      const Bytes needed = memory_report(*d.program, from.site->cluster, rule).tightest().needed;
      CHECK(e->needed.value() == Approx(needed.value()).epsilon(1e-6));
    }
  }
  CHECK(told >= 10);
  CHECK(uneven > 0);
  CHECK(paired > 0);
  CHECK(kinds > 0);
}

TEST_CASE("where experts lie across a ring, the rank that computes most stands for all") {
  const ScenarioJob from = load_job(kSource + "/scenarios/mixtral_8x7b_h100_64.json");
  DrawnPlan d{from.workload, from.strategy, {}};
  StrategySettings& s = d.strategy;
  s.tp = s.cp = s.etp = 4;
  s.pp = s.dp = s.dp_replicate = 2;
  s.dp_shard = 1;
  s.ep = 8;
  s.microbatch = 1;
  s.context = ContextExchange::ring;
  s.sequence_parallel = true;
  d.workload.training.global_batch = 8;
  d.program = lower(d.workload, s, from.site->cluster);
  CHECK(std::abs(compare_plan(from, d).difference()) < 0.01);
}

TEST_CASE("buffers of reductions count where a step has one microbatch") {
  const ScenarioJob from = load_job(kSource + "/scenarios/mixtral_8x7b_h100_64.json");
  Workload workload = from.workload;
  StrategySettings s = from.strategy;
  s.tp = 4;
  s.pp = s.cp = s.etp = s.dp_shard = s.virtual_stages = 1;
  s.schedule = "1f1b";
  s.dp = s.dp_replicate = 16;
  s.ep = 2;
  s.microbatch = 16;
  s.zero_stage = 2;
  s.sequence_parallel = true;
  s.recompute = Recompute::full;
  for (const int microbatches : {1, 2}) {
    workload.training.global_batch = s.dp * s.microbatch * microbatches;
    const MemoryRule rule(from.site->cluster);
    QuickEstimator quick(workload, from.site->cluster, from.site->cost, rule);
    const std::optional<QuickEstimate> e = quick.closed_form(s);
    REQUIRE(e);
    const RoleMemory& whole =
        memory_report(lower(workload, s, from.site->cluster), from.site->cluster, rule).tightest().memory;
    CHECK(e->memory.peak.value() == Approx(whole.peak.value()).epsilon(1e-9));
    CHECK(nth(whole.by_category, MemoryCategory::communication) > Bytes{0});
  }
}

TEST_CASE("a step of many microbatches is what two of few say") {
  std::vector<Compared> rows;
  for (const std::string scenario : {"llama3_8b_fsdp_h100_64", "mixtral_8x7b_h100_64"}) {
    const ScenarioJob from = load_job(kSource + "/scenarios/" + scenario + ".json");
    const SearchProblem problem{from.workload,
                                from.site->cluster,
                                from.site->cost,
                                from.strategy,
                                from.site->cluster.device_count(),
                                [&](const StrategySettings& s) { return lower(from.workload, s, from.site->cluster); }};
    std::mt19937_64 random(12);
    for (int i = 0; i < draws(12);) {
      const StrategySettings s = draw_settings(from, random);
      if (!short_steps(from.workload, s)) continue;
      const Program program = problem.lower(s);
      if (played_entries(program, s) > 1e6) continue;
      ++i;
      const Evaluation from_few = evaluate(problem, s, Bytes{1e15});
      INFO(plan_label(s));
      CHECK(from_few.refusal.empty());
      const Bytes needed = memory_report(program, from.site->cluster, MemoryRule(from.site->cluster)).tightest().needed;
      CHECK(from_few.needed.value() == Approx(needed.value()).epsilon(1e-5));
      if (!from_few.fits) continue;
      const Estimate whole = estimate(program, from.site->cost, s, steps_in_period(s, from.workload.input));
      rows.push_back({plan_label(s), whole.step_time.value(), from_few.step_time.value(), {}, {}});
      CHECK(std::abs(from_few.breakdown.total() / from_few.step_time - 1) < 1e-9);
    }
  }
  const Spread s = print("few microbatches for many", rows);
  CHECK(s.median < 1e-6);
  CHECK(s.worst < 0.005);
}
