// What plans told from tables say against the walk over their whole Programs, and how much of a space is told so.

#include "core/estimate/quick/quick_tables.hpp"
#include "core/price/stage_memory.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/estimate/plan_draws.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

SearchProblem problem_of(const ScenarioJob& job) {
  return {job.workload,
          job.site->cluster,
          job.site->cost,
          job.strategy,
          job.site->cluster.device_count(),
          [&job](const StrategySettings& s) { return lower(job.workload, s, job.site->cluster); }};
}

StrategySettings plan_of(const ScenarioJob& job, const std::string& schedule, int stages, int chunks) {
  StrategySettings s = job.strategy;
  s.schedule = schedule;
  s.tp = 2;
  s.pp = stages;
  s.dp = s.dp_replicate = job.site->cluster.device_count() / s.tp / s.pp;
  s.dp_shard = 1;
  s.virtual_stages = chunks;
  s.microbatch = 1;
  s.fsdp.enabled = false;
  return s;
}

}  // namespace

TEST_CASE("halves of backward, both directions and copies to the host are told from tables as they are walked") {
  const ScenarioJob job = load_job(kSource + "/scenarios/llama3_8b_fsdp_h100_64.json");
  const SearchProblem problem = problem_of(job);
  QuickEvaluator quick(problem, Bytes{1e15});
  struct Shape {
    const char* schedule;
    int stages, chunks;
    double bound;  ///< On times: calls of interleaved passes are those of others of their kind.
  };
  for (const Shape& shape :
       {Shape{"1f1b", 2, 1, 0.002}, Shape{"interleaved_1f1b", 4, 2, 0.003}, Shape{"zb_h1", 4, 1, 0.002},
        Shape{"zb_v", 2, 2, 0.003}, Shape{"zb_v", 4, 2, 0.001}, Shape{"dualpipe", 4, 1, 0.03}}) {
    for (const Offload moved : {Offload::none, Offload::optimizer, Offload::activations, Offload::all}) {
      for (const Recompute again : {Recompute::none, Recompute::full}) {
        StrategySettings s = plan_of(job, shape.schedule, shape.stages, shape.chunks);
        s.offload = moved;
        s.recompute = again;
        s.zero_stage = again == Recompute::full ? 1 : 0;
        INFO(plan_label(s));
        const std::optional<Evaluation> told = quick(s);
        REQUIRE(told.has_value());
        const Evaluation walked = evaluate(problem, s, Bytes{1e15});
        CHECK(walked.refusal.empty());
        CHECK(told->step_time.value() == Approx(walked.step_time.value()).epsilon(shape.bound));
        CHECK(told->needed.value() == Approx(walked.needed.value()).epsilon(1e-5));
        CHECK(told->breakdown.total().value() == Approx(told->step_time.value()));
      }
    }
  }
}

TEST_CASE("rounds of unlike stages are taken to go on alike once they take as long as each other") {
  const ScenarioJob job = load_job(kSource + "/scenarios/qwen3_235b_a22b_h100_256.json");
  const SearchProblem problem = problem_of(job);
  QuickEvaluator quick(problem, Bytes{1e15});
  StrategySettings mesh = plan_of(job, "interleaved_1f1b", 4, 2);
  mesh.tp = mesh.etp = 4;
  mesh.cp = mesh.ep = 1;
  Space space(job.workload, mesh, job.site->cluster.device_count(), {"tp", "pp", "cp", "ep", "etp"});
  space.enumerate();
  int uneven = 0;
  for (const Space::Plan& plan : space.plans()) {
    const StrategySettings s = space.settings(plan);
    if (s.schedule != "interleaved_1f1b" || s.virtual_stages != 2 || s.microbatch != 1 || !s.uneven_layers ||
        s.offload != Offload::none || s.recompute != Recompute::full || s.zero_stage != 0)
      continue;
    INFO(plan_label(s));
    const std::optional<Evaluation> told = quick(s);
    REQUIRE(told.has_value());
    const Estimate walked = estimate(lower(job.workload, s, job.site->cluster), job.site->cost, s);
    CHECK(told->step_time.value() == Approx(walked.step_time.value()).epsilon(0.001));
    ++uneven;
  }
  CHECK(uneven > 0);
}

TEST_CASE("plans told from tables are asked whether host memory suffices") {
  const ScenarioJob job = load_job(kSource + "/scenarios/gpt3_175b_a100_1024.json");
  const SearchProblem problem = problem_of(job);
  QuickEvaluator quick(problem, {});
  StrategySettings s = plan_of(job, "1f1b", 16, 1);
  s.tp = 8;
  s.dp = s.dp_replicate = 8;
  s.recompute = Recompute::none;
  s.offload = Offload::activations;
  s.sequence_parallel = s.scatter_gather = s.overlap.tp = false;
  for (const int microbatch : {1, 6}) {
    s.microbatch = microbatch;
    INFO(plan_label(s));
    const std::optional<Evaluation> told = quick(s);
    REQUIRE(told.has_value());
    const Program program = lower(job.workload, s, job.site->cluster);
    const MemoryReport report = memory_report(program, job.site->cluster, MemoryRule(job.site->cluster));
    CHECK(told->fits == report.fits());
    const bool host_fits =
        std::all_of(report.stages.begin(), report.stages.end(), [](const StageMemory& m) { return m.host_fits(); });
    CHECK(host_fits == (microbatch == 1));
  }
}

TEST_CASE("most plans of a space are told from tables") {
  int told = 0, all = 0;
  for (const std::string& scenario : kSpaces) {
    const ScenarioJob job = load_job(kSource + "/scenarios/" + scenario + ".json");
    const SearchProblem problem = problem_of(job);
    QuickEvaluator quick(problem, {});
    std::mt19937_64 random(5);
    const int plans = draws(job.site->cluster.device_count() <= 256 ? 12 : 4);
    int inside = 0;
    for (int i = 0; i < plans; ++i) inside += quick(draw_settings(job, random)) ? 1 : 0;
    fmt::print("{}: {} of {} told from tables\n", scenario, inside, plans);
    told += inside;
    all += plans;
  }
  CHECK(told >= 0.9 * all);
}

TEST_CASE("tables that are forgotten for want of room are made again, and say the same") {
  const ScenarioJob job = load_job(kSource + "/scenarios/llama3_8b_fsdp_h100_64.json");
  const SearchProblem problem = problem_of(job);
  const auto none = quick_tables(1);
  QuickEvaluator keeps(problem, Bytes{1e15}), forgets(problem, Bytes{1e15}, none);
  for (int round = 0; round < 2; ++round) {
    for (const char* schedule : {"1f1b", "gpipe"}) {
      for (const int stages : {1, 2, 4}) {
        const StrategySettings s = plan_of(job, schedule, stages, 1);
        INFO(plan_label(s));
        const std::optional<Evaluation> kept = keeps(s), again = forgets(s);
        REQUIRE(kept.has_value());
        REQUIRE(again.has_value());
        CHECK(again->step_time.value() == kept->step_time.value());
        CHECK(again->needed.value() == kept->needed.value());
      }
    }
  }
  CHECK(none->meshes.generation() >= 6);
  CHECK(none->blocks.generation() >= 1);
}

TEST_CASE("a table that is asked for again and again outlives others") {
  struct Table {
    int number;
    [[nodiscard]] std::size_t bytes() const { return 10; }
  };
  Shelf<Table> shelf(60);
  int made = 0;
  const auto ask = [&](int number) {
    return shelf.get(TableKey{number}, [&] { return ++made, std::make_unique<Table>(Table{number}); });
  };
  const std::shared_ptr<const Table> held = ask(1);
  for (int i = 2; i < 20; ++i) {
    ask(i);
    CHECK(ask(1)->number == 1);
  }
  CHECK(made == 19);  // 1 was never made again.
  CHECK(shelf.generation() > 3);
  ask(2);
  CHECK(made == 20);
  CHECK(held->number == 1);
}
