// The closed form against the analytic back end, which plays every rank: shipped scenarios and a grid of strategies.

#include <cmath>
#include <functional>

#include "core/config/settings/strategy.hpp"
#include "core/estimate/quick/quick_estimate.hpp"
#include "core/estimate/walk/rank_kinds.hpp"
#include "core/play/player/actors.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/estimate/estimate_draws.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

/// The breakdown adds up to the step, and no part of it is less than nothing.
void check_breakdown(const Compared& row) {
  INFO(row.name);
  CHECK(std::abs(row.estimated_parts.total().value() / row.estimated - 1) < 1e-9);
  for (const Seconds part : row.estimated_parts.seconds) CHECK(part.value() >= -1e-9 * row.estimated);
}

std::vector<Compared> compare_drawn(int count, int steps, unsigned seed,
                                    const std::function<Drawn(std::mt19937_64&)>& draw_one) {
  std::mt19937_64 random(seed);
  std::vector<Compared> rows;
  for (int i = 0; i < count; ++i) {
    const Drawn d = draw_one(random);
    rows.push_back(compare(d.name, lower(d.workload, d.strategy, d.site->cluster), *d.site, d.strategy, steps));
    check_breakdown(rows.back());
  }
  return rows;
}

}  // namespace

TEST_CASE("shipped scenarios are estimated as they are played") {
  std::vector<Compared> rows;
  for (const std::string& file : scenario_files()) {
    const ScenarioJob job = load_job(file);
    const Program program = lower(job.workload, job.strategy, job.site->cluster);
    if (program.mesh.ranks() > 1024) continue;  // Minutes to play.
    for (const int steps : {1, 2}) {
      rows.push_back(compare(fmt::format("{}, {} step(s)", job.name, steps), program, *job.site, job.strategy, steps));
      check_breakdown(rows.back());
    }
  }
  const Spread s = print("scenarios", rows);
  CHECK(s.median < 0.0002);
  CHECK(s.worst < 0.005);
}

TEST_CASE("drawn strategies are estimated as they are played") {
  const Spread one = print("drawn, one step", compare_drawn(draws(24), 1, 1, dense));
  CHECK(one.median < 0.0002);
  CHECK(one.worst < 0.01);
  const Spread period = print("drawn, period", compare_drawn(draws(24), 3, 2, dense));
  CHECK(period.median < 0.0002);
  CHECK(period.worst < 0.01);
}

TEST_CASE("sharded strategies are estimated as they are played") {
  const Spread one = print("sharded, one step", compare_drawn(draws(12), 1, 3, draw_sharded));
  CHECK(one.worst < 0.01);
  const Spread period = print("sharded, period", compare_drawn(draws(12), 3, 4, draw_sharded));
  CHECK(period.worst < 0.01);
}

TEST_CASE("pipelines of every order, and unequal shares, are estimated as they are played") {
  struct Plan {
    std::string schedule;
    int virtual_stages;
    std::vector<std::int64_t> layers, batch;
  };
  std::vector<Compared> rows;
  for (const Plan& plan : std::vector<Plan>{{"model_parallel", 1, {}, {}},
                                            {"zb_h1", 1, {}, {}},
                                            {"zb_v", 2, {}, {}},
                                            {"dualpipe", 1, {}, {}},
                                            {"paired_1f1b", 1, {}, {}},
                                            {"paired_1f1b", 3, {}, {}},
                                            {"1f1b", 1, {2, 4, 4, 2}, {}},
                                            {"1f1b", 1, {}, {20, 12}},
                                            {"zb_h1", 1, {4, 3, 3, 2}, {18, 14}}}) {
    const Site& dgx = site({"dgx_a100_80gb", 2, "selene"});
    Workload w;
    w.network = network("gpt2");
    w.training.global_batch = 32;
    w.training.sequence_length = 1024;
    StrategySettings s;
    s.tp = 2;
    s.pp = 4;
    s.dp = s.dp_replicate = 2;
    s.microbatch = 1;
    s.schedule = plan.schedule;
    s.virtual_stages = plan.virtual_stages;
    s.uneven_layers = true;
    s.layers_per_stage = plan.layers;
    s.batch_per_replica = plan.batch;
    for (const int steps : {1, 3}) rows.push_back(compare(plan.schedule, lower(w, s, 16), dgx, s, steps));
  }
  CHECK(print("orders and shares", rows).worst < 0.005);
}

TEST_CASE("context-parallel strategies are estimated as they are played") {
  const Spread one = print("context, one step", compare_drawn(draws(12), 1, 5, draw_context));
  CHECK(one.worst < 0.01);
  const Spread period = print("context, period", compare_drawn(draws(8), 3, 6, draw_context));
  CHECK(period.worst < 0.01);
}

TEST_CASE("prefetching hides gathers; the first of a step stays exposed") {
  Workload w;
  w.network = network("llama3_8b");
  w.training.global_batch = 64;
  w.training.sequence_length = 2048;
  StrategySettings s;
  s.dp = s.dp_shard = 64;
  s.fsdp.enabled = true;
  const Site& h100 = site({"dgx_h100", 8, "rail_ndr"});
  const auto exposed = [&](int depth) {
    s.fsdp.prefetch_forward = s.fsdp.prefetch_backward = depth;
    return estimate(lower(w, s, h100.cluster), h100.cost, s, 2).breakdown[TimeCategory::exposed_dp].value();
  };
  const double none = exposed(0), one = exposed(1), all = exposed(100);
  CHECK(none > 1.5 * one);
  CHECK(all <= one);
  CHECK(all > 0);
}

TEST_CASE("drawn strategies with experts are estimated as they are played") {
  const Spread one = print("experts, one step", compare_drawn(draws(16), 1, 3, experts));
  CHECK(one.median < 0.001);
  CHECK(one.worst < 0.01);
  const Spread period = print("experts, period", compare_drawn(draws(12), 3, 4, experts));
  CHECK(period.median < 0.001);
  CHECK(period.worst < 0.01);
}

TEST_CASE(
    "the rank with the most experts' rows stands for its group: estimates of pairs are what playing every rank gives") {
  for (const auto& [place, ep] : {std::pair(Place{"dgx_h100", 4, "rail_ndr"}, 8),
                                  {Place{"dgx_h100", 4, "rail_ndr"}, 16},
                                  {Place{"dgx_a100_80gb", 4, "selene"}, 16},
                                  {Place{"dgx1v", 2, "ib_edr"}, 4}})
    for (const char* schedule : {"dualpipe", "paired_1f1b"})
      for (const Imbalance imbalance : {Imbalance::multinomial, Imbalance::zipf}) {
        Workload w;
        w.network = network("qwen3_30b_a3b");
        w.training.sequence_length = 2048;
        w.training.experts.imbalance = imbalance;
        StrategySettings s;
        s.pp = 2;
        s.ep = ep;
        s.dp = s.dp_replicate = 8 * place.nodes / s.pp;
        s.schedule = schedule;
        s.uneven_layers = true;
        w.training.global_batch = 6 * s.dp;
        const Site& at = site(place);
        const Program program = lower(w, s, at.cluster);
        const Compared both = compare(schedule, program, at, s, 1);
        INFO(place.machine << " ep " << ep << " " << schedule << " " << name_of(imbalance));
        CHECK(std::abs(both.difference()) < 5e-3);
        // Every rank has another number of rows; one of each stage is walked, or two where machines tell GPUs apart.
        CallPrices prices(program, at.cost);
        CHECK(kinds_of_ranks(program, at.cost, 1, prices).kinds.size() <= (place.machine == "dgx1v" ? 16U : 2U));
        CHECK(make_cast(program, at.cluster, at.cost, {}).compiled.size() >= static_cast<std::size_t>(2 * ep));
      }
}

TEST_CASE("drawn networks over images are estimated as they are played") {
  const Spread s = print("images, one step", compare_drawn(draws(12), 1, 3, draw_images));
  CHECK(s.median < 0.002);
  CHECK(s.worst < 0.01);
}

namespace {

/// Llama 3 8B on eight H100 with `change` made to it.
Compared llama_with(const std::string& name, const std::function<void(Workload&, StrategySettings&)>& change,
                    int steps = 2) {
  Workload w;
  w.network = network("llama3_8b");
  w.training.global_batch = 32;
  w.training.sequence_length = 2048;
  StrategySettings s;
  s.tp = 2;
  s.pp = 2;
  s.dp = s.dp_replicate = 2;
  s.sequence_parallel = true;
  s.microbatch = 2;
  change(w, s);
  const Site& h100 = site({"dgx_h100", 1, "rail_ndr"});
  Compared out = compare(name, lower(w, s, h100.cluster), h100, s, steps);
  QuickEstimator quick(w, h100.cluster, h100.cost, {}, steps);
  const QuickEstimate e = quick(s, w.training);
  INFO(name << (e.closed_form ? ", told from tables" : ""));
  CHECK(e.step_time.value() == Approx(out.analytic).epsilon(0.01));
  return out;
}

}  // namespace

TEST_CASE("fp8, update rules, recomputation and offload are estimated as they are played") {
  std::vector<Compared> rows;
  for (const Fp8Recipe recipe : {Fp8Recipe::delayed, Fp8Recipe::tensorwise, Fp8Recipe::blockwise})
    for (const int batch : {8, 32})
      rows.push_back(llama_with("fp8 " + name_of(recipe), [&](Workload& w, StrategySettings&) {
        w.training.precision = Precision::fp8_mixed;
        w.training.fp8.recipe = recipe;
        w.training.global_batch = batch;
      }));
  for (const Optimizer o : {Optimizer::sgd, Optimizer::lamb, Optimizer::adafactor})
    for (const int zero : {0, 1})
      rows.push_back(llama_with(name_of(o), [&](Workload& w, StrategySettings& s) {
        w.training.optimizer = o;
        s.zero_stage = zero;
      }));
  for (const auto& modules : {std::vector<std::string>{"layernorm", "mlp"}, {"core_attn", "mlp"}})
    rows.push_back(llama_with("modules", [&](Workload&, StrategySettings& s) {
      s.recompute = Recompute::selective;
      s.recompute_modules = modules;
    }));
  for (const RecomputeMethod m : {RecomputeMethod::block, RecomputeMethod::uniform})
    rows.push_back(llama_with("layers", [&](Workload&, StrategySettings& s) {
      s.recompute = Recompute::full;
      s.recompute_method = m;
      s.recompute_layers = 4;
    }));
  rows.push_back(llama_with("offload", [](Workload&, StrategySettings& s) { s.offload = Offload::activations; }));
  for (const Precision p : {Precision::bf16_mixed, Precision::fp8_mixed})
    rows.push_back(llama_with("samples first, eager", [&](Workload& w, StrategySettings&) {
      w.training.precision = p;
      w.kernels.samples_first = true;
      w.kernels.fused_norm = false;
    }));
  const Spread s = print("precision, updates, recomputation, offload", rows);
  CHECK(s.median < 0.002);
  CHECK(s.worst < 0.01);
  for (const Compared& row : rows) check_breakdown(row);
}

TEST_CASE("fp8 takes less time than bf16, more than half of it") {
  const auto time = [](Precision p) {
    return llama_with("",
                      [&](Workload& w, StrategySettings&) {
                        w.training.precision = p;
                        w.training.sequence_length = 8192;
                        w.training.global_batch = 8;
                      })
        .analytic;
  };
  const double bf16 = time(Precision::bf16_mixed), fp8 = time(Precision::fp8_mixed);
  CHECK(fp8 < 0.95 * bf16);
  CHECK(fp8 > 0.5 * bf16);
}

TEST_CASE("eager operators and samples that come first take more passes over memory") {
  const auto time = [](bool fused, bool samples_first) {
    const Compared c = llama_with("", [&](Workload& w, StrategySettings& s) {
      s.pp = 1;
      s.dp = s.dp_replicate = 4;
      w.kernels.fused_norm = fused;
      w.kernels.samples_first = samples_first;
    });
    return c.analytic_parts[TimeCategory::memory_bound].value();
  };
  const double fused = time(true, false), eager = time(false, false), samples_first = time(true, true);
  CHECK(eager > 1.5 * fused);
  CHECK(samples_first > 1.05 * fused);
  // What differs adds up: neither setting changes the other's kernels.
  CHECK(time(false, true) - eager == Approx(samples_first - fused));
}

TEST_CASE("activation offload is bound by PCIe where layers keep more than it moves meanwhile") {
  const auto exposed = [](Recompute r) {
    return llama_with("",
                      [&](Workload&, StrategySettings& s) {
                        s.recompute = r;
                        s.offload = Offload::activations;
                      })
        .analytic_parts[TimeCategory::exposed_copy]
        .value();
  };
  // 34 bytes per token and feature in two passes against 2: only the first cannot hide.
  CHECK(exposed(Recompute::none) > 0.05);
  CHECK(exposed(Recompute::full) < 0.1 * exposed(Recompute::none));
}
