// Expert parallelism: who holds what, which rows go where, and over whom gradients are reduced.

#include <algorithm>
#include <numeric>
#include <set>

#include "core/base/index.hpp"
#include "core/config/settings/training.hpp"
#include "core/program/body.hpp"
#include "core/program/flops.hpp"
#include "core/strategy/operators/expert_plan.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/program/lowered.hpp"
#include "tests/unit/strategy/experts.hpp"

using namespace rehearse;
using namespace rehearse::test;
using namespace rehearse::test::experts;

TEST_CASE("a layer exchanges its rows four times a step: k b s h, there and back, each way") {
  const Program p = moe(4, 4).lower();
  validate(p);
  constexpr double k = 2, row = 2 * kExpertsHidden;
  const auto forward = calls(p, "layer.forward"), backward = calls(p, "layer.backward");
  // A row's weight, 4 bytes, travels with it: forward to the experts, and as a gradient back.
  CHECK(given(forward, "moe.dispatch.dispatch") == k * kTokens * (row + 4));
  CHECK(given(forward, "moe.combine.combine") == k * kTokens * row);
  CHECK(given(backward, "moe.combine.dispatch") == k * kTokens * row);
  CHECK(given(backward, "moe.dispatch.combine") == k * kTokens * (row + 4));
  // Counts, one int64 for each of 8 experts, go ahead of the rows once: backward knows them.
  CHECK(given(forward, "moe.dispatch.sizes") == 8 * 8);
  CHECK(count(forward, CollectiveOp::all_to_all) == 3);
  CHECK(count(backward, CollectiveOp::all_to_all) == 2);
}

TEST_CASE("recomputing a layer exchanges its rows again, counts too") {
  Job job = moe(4, 4);
  job.strategy.recompute = Recompute::full;
  CHECK(count(calls(job.lower(), "layer.backward"), CollectiveOp::all_to_all) == 5);
}

TEST_CASE("experts on one rank exchange nothing") {
  for (const int dp : {1, 4}) {
    const Program p = moe(dp, 1).lower();
    validate(p);
    CHECK(calls(p, "layer.forward").empty());
    CHECK(executed_matmul_flops(p).value() == p.model_flops_per_step);
  }
}

TEST_CASE("each rank holds E/ep experts, and the group of etp * ep ranks all of them once") {
  for (const auto& [etp, ep] : {std::pair{1, 1}, {1, 4}, {2, 2}, {4, 2}, {1, 8}}) {
    Job job = moe(8, ep);
    job.strategy.etp = etp;
    const Program p = job.lower();
    validate(p);
    double elements = 0;
    for (int rank = 0; rank < etp * ep; ++rank)
      elements +=
          static_cast<double>(p.local_elements(tensor(p, "layer.{layer}.moe.gate_up.weight"), p.mesh.context(rank)));
    CHECK(elements == 8.0 * 2 * 96 * 64);
    CHECK(executed_matmul_flops(p).value() == p.model_flops_per_step);
  }
}

TEST_CASE("experts' gradients are reduced over copies of the experts, all others over all replicas") {
  const Program p = moe(8, 4).lower();
  std::map<std::string, double> reduced;
  for_each_task(p, 0, [&](const Entry& e, const Body& body, const Task& task) {
    const auto* c = std::get_if<CollectiveTask>(&task.kind);
    if (c == nullptr || task.name != "gradients") return;
    const GroupSpec& group = nth(p.groups, c->group);
    const ExprContext at = context_of(p, 0, e);
    reduced[group.name] += collective_bytes(p, body, task, at);
    CHECK(p.mesh.group_size(group, 0, p.exprs) == (group.name == "edp" ? 2 : 8));
    CHECK(p.exprs.evaluate(c->divisor, at) == 8);  // Every gradient is the mean over all eight replicas' tokens.
  });
  const double experts = 4.0 * 4 * (8.0 / 4) * 3 * 96 * 64;  // fp32, layers, experts here
  CHECK(reduced.at("edp") == experts);
  CHECK(reduced.at("edp") + reduced.at("dp") == persistent_bytes(p, 0, MemoryCategory::gradients));
}

TEST_CASE("experts that no other rank copies are still divided by the replicas") {
  const Program p = moe(4, 4).lower();
  bool seen = false;
  for (const GroupSpec& g : p.groups)
    if (g.name == "edp") {
      CHECK(p.mesh.group_size(g, 0, p.exprs) == 1);
      seen = true;
    }
  CHECK(seen);
}

TEST_CASE("ZeRO-1 divides experts' optimizer state over their copies") {
  Job job = moe(8, 2);
  const double whole = persistent_bytes(job.lower(), 0, MemoryCategory::optimizer);
  job.strategy.zero_stage = 1;
  const Program p = job.lower();
  validate(p);
  const double experts = 12.0 * 4 * (8.0 / 2) * 3 * 96 * 64;
  CHECK(persistent_bytes(p, 0, MemoryCategory::optimizer) == Approx(experts / 4 + (whole - experts) / 8).epsilon(1e-3));
  int gathers = 0;
  for_each_task(p, 0, [&](const Entry&, const Body&, const Task& task) { gathers += task.name == "parameters"; });
  CHECK(gathers == 6 + 4);  // Six blocks, four of them with experts.
}

TEST_CASE("sharded training divides experts over their copies, a single one included") {
  constexpr double kExperts = 4.0 * 8 * 3 * 96 * 64;  // Parameters of all layers.
  const double all = static_cast<double>(moe(8, 2).workload.network.parameter_count());
  for (const int ep : {1, 2, 8}) {
    Job job = moe(8, ep);
    job.strategy.dp_replicate = 1;
    job.strategy.dp_shard = 8;
    job.strategy.fsdp.enabled = true;
    const Program p = job.lower();
    validate(p);
    // Eight ranks hold every parameter once, its experts ep times fewer to a rank and 8/ep times sliced.
    CHECK(persistent_bytes(p, 0, MemoryCategory::optimizer) == Approx(12 * all / 8).epsilon(1e-3));
    CHECK(persistent_bytes(p, 0, MemoryCategory::gradients) == Approx(4 * all / 8).epsilon(1e-3));
    CHECK(persistent_bytes(p, 0, MemoryCategory::weights) == 0);
    double gathered = 0, scattered = 0;
    int calls_of_experts = 0;
    for_each_task(p, 0, [&](const Entry& e, const Body& body, const Task& task) {
      const auto* c = std::get_if<CollectiveTask>(&task.kind);
      if (c == nullptr || nth(p.groups, c->group).name != "edp") return;
      CHECK(p.mesh.group_size(nth(p.groups, c->group), 0, p.exprs) == 8 / ep);
      const ExprContext at = context_of(p, 0, e);
      ++calls_of_experts;
      (c->op == CollectiveOp::all_gather ? gathered : scattered) += collective_bytes(p, body, task, at);
      if (c->op == CollectiveOp::reduce_scatter) CHECK(p.exprs.evaluate(c->divisor, at) == 8);
    });
    CHECK(calls_of_experts == job.microbatches * 3 * 4);  // Forward, backward, gradients of four layers.
    CHECK(gathered == job.microbatches * 2 * 2 * kExperts / ep);
    CHECK(scattered == job.microbatches * 4 * kExperts / ep);
  }
}

TEST_CASE("ZeRO 2 and 3 divide experts' gradients and parameters over their copies") {
  for (const int stage : {2, 3}) {
    Job job = moe(8, 4);
    const double whole = persistent_bytes(job.lower(), 0, MemoryCategory::gradients);
    job.strategy.zero_stage = stage;
    job.strategy.zero3.persistence_threshold = 0;
    const Program p = job.lower();
    validate(p);
    const double experts = 4.0 * 4 * (8.0 / 4) * 3 * 96 * 64;  // fp32, layers, experts here
    CHECK(persistent_bytes(p, 0, MemoryCategory::gradients) ==
          Approx(experts / 2 + (whole - experts) / 8).epsilon(1e-3));
    CHECK(persistent_bytes(p, 0, MemoryCategory::weights) ==
          Approx((stage == 3 ? experts / 2 + (whole - experts) / 8 : whole) / 2).epsilon(1e-3));
  }
}

TEST_CASE("sums are not reduced again after each microbatch, means are") {
  const auto every = [](Job job) {
    job.strategy.grad_sync = GradientSync::every;
    return job;
  };
  CHECK_NOTHROW((void)every(moe(4, 1)).lower());  // As many copies of experts as replicas.
  CHECK(refusal_experts(every(moe(4, 2))).where == "strategy.grad_sync");
  Job once = every(moe(4, 2));
  once.microbatches = 1;
  CHECK_NOTHROW((void)once.lower());
  Job sliced = every(moe(4, 2));
  sliced.strategy.zero_stage = 2;
  CHECK_NOTHROW((void)sliced.lower());
  Job context(tiny_gpt());
  context.strategy.cp = 2;
  context.workload.kernels.attention = AttentionKernel::flash;
  CHECK_NOTHROW((void)context.lower());
  CHECK(refusal_experts(every(context)).where == "strategy.grad_sync");
}

TEST_CASE("copies of shards don't say where experts are") {
  Job job = moe(8, 2);
  job.strategy.dp_replicate = 2;
  job.strategy.dp_shard = 4;
  job.strategy.fsdp.enabled = true;
  CHECK(refusal_experts(job).where == "strategy.dp_replicate");
}

TEST_CASE("splitting experts gathers and scatters rows as sequence parallelism does tokens") {
  Job job = moe(4, 2);
  job.strategy.etp = 2;
  const Program p = job.lower();
  const auto forward = calls(p, "layer.forward"), backward = calls(p, "layer.backward");
  CHECK(count(forward, CollectiveOp::all_gather) == 3);      // Rows, their weights, and how many there are.
  CHECK(count(forward, CollectiveOp::reduce_scatter) == 1);  // The partial sums of the inner size.
  CHECK(given(forward, "moe.gate_up.all_gather") == 2 * kTokens * 2 * kExpertsHidden);
  CHECK(count(backward, CollectiveOp::reduce_scatter) == 2);
  CHECK(rows_of(p, 0) == 2 * kTokens);
}

TEST_CASE("with tensor and sequence parallelism every rank sends its slice of the tokens") {
  Job job = moe(4, 8);
  job.strategy.tp = 2;
  job.strategy.sequence_parallel = true;
  const Program p = job.lower();
  validate(p);
  CHECK(given(calls(p, "layer.forward"), "moe.combine.combine") == 2 * (kTokens / 2) * 2 * kExpertsHidden);
  CHECK(executed_matmul_flops(p).value() == p.model_flops_per_step);
}

TEST_CASE("the two views of a stage agree wherever pp is placed") {
  Job job = moe(8, 2);
  job.strategy.pp = 2;
  const Program last = job.lower();
  CHECK(nth(last.mesh.context(1).coord, Axis::ep) == 1);
  job.strategy.placement = {"pp", "tp", "ep", "dp"};
  const Program first = job.lower();
  validate(first);
  CHECK(nth(first.mesh.context(2).coord, Axis::ep) == 1);
  job.strategy.placement = {"tp", "dp", "ep", "pp"};
  const Program outer = job.lower();
  validate(outer);
  CHECK(nth(outer.mesh.context(1).coord, Axis::edp) == 1);
  // Two ranks stand before pp: no block of four experts' ranks does.
  job.strategy.tp = 2;
  job.strategy.sequence_parallel = true;
  job.strategy.ep = 4;
  job.strategy.placement = {"tp", "pp", "ep", "dp"};
  CHECK(refusal_experts(job).where == "strategy.placement");
}

TEST_CASE("capacity: padded buffers hold ceil(factor k T / E) rows for every expert and need no counting") {
  Job job = moe(4, 4);
  job.workload.training.experts.capacity_factor = 1.25;
  job.workload.training.experts.pad_to_capacity = true;
  const Program p = job.lower();
  validate(p);
  const double capacity = 10;  // 1.25 * 2 * 32 / 8
  CHECK(given(calls(p, "layer.forward"), "moe.combine.combine") == 8 * capacity * 2 * kExpertsHidden);
  CHECK(given(calls(p, "layer.forward"), "moe.dispatch.sizes") == 0);
  CHECK(p.dynamic_dims.empty());
  CHECK(executed_matmul_flops(p).value() > p.model_flops_per_step);
}

TEST_CASE("capacity: rows beyond it are dropped, and only rows are sent") {
  Job job = moe(4, 4);
  job.workload.training.experts.capacity_factor = 1;
  job.workload.training.experts.imbalance = Imbalance::multinomial;
  const Program p = job.lower();
  validate(p);
  const double sent = given(calls(p, "layer.forward"), "moe.dispatch.dispatch") / (2 * kExpertsHidden + 4);
  // A count of mean 8 and variance 32 * 1/4 * 3/4 loses 0.4 of a deviation, 2.45, on average.
  CHECK(sent == Approx(8 * (8 - 0.3989 * 2.449)).margin(1));
  CHECK(executed_matmul_flops(p).value() < p.model_flops_per_step);
}

TEST_CASE("sizes that only the data decides are dynamic, and their sources are written before they are used") {
  const Program p = moe(4, 4).lower();
  REQUIRE(p.dynamic_dims.size() == 3);
  CHECK(p.dynamic_dims[1].transpose_of == 0);
  for (const DynamicDim& d : p.dynamic_dims) {
    CHECK(p.exprs.evaluate(d.expectation, p.mesh.context(0)) <= p.exprs.evaluate(d.bound, p.mesh.context(0)));
    CHECK(tensor(p, nth(p.tensors, d.source).name).dtype == DType::int64);
  }
  const Tensor& rows = tensor(p, "layer.moe.dispatch");
  CHECK(std::holds_alternative<Ragged>(layout_on(rows.layout, Axis::ep)));
  // Execution says how many rows came; all that is sized by them follows.
  const std::vector<std::vector<std::int64_t>> counted{{1}, {1}, {17}};
  ExprContext at = p.mesh.context(0);
  CHECK(p.local_extent(rows, 0, at) == 64);
  at.dynamic = &counted;
  CHECK(p.local_extent(rows, 0, at) == 17);
}

TEST_CASE("uneven choices load ranks unevenly, but no row is lost") {
  for (const Imbalance imbalance : {Imbalance::multinomial, Imbalance::zipf}) {
    Job job = moe(4, 4);
    job.workload.training.experts.imbalance = imbalance;
    const Program p = job.lower();
    validate(p);
    double sum = 0;
    for (int rank = 0; rank < 4; ++rank) {
      sum += rows_of(p, rank);
      if (rank > 0) CHECK(rows_of(p, rank) <= rows_of(p, rank - 1));
    }
    CHECK(sum == 4 * 2 * kTokens);
    CHECK(rows_of(p, 0) > 2 * kTokens);
    CHECK(executed_matmul_flops(p).value() == p.model_flops_per_step);
    CHECK(peak_of_stage(p, 0) > peak_of_stage(moe(4, 4).lower(), 0));
  }
}

TEST_CASE("expected loads: Blom's order statistics, and popularity that falls as a power") {
  const Routing r{.experts = 50, .top_k = 1};
  ExpertSettings settings;
  const auto even = rows_per_expert(r, 5000, 0, settings);
  const auto load = rows_per_rank(r, even, 500000, 50, 1, Imbalance::multinomial, 1);
  CHECK(std::accumulate(load.begin(), load.end(), std::int64_t{0}) == 500000);
  // The largest of 50 normal variables lies 2.249 deviations above the mean (Harter 1961, table 1); here one is 98.99
  // rows.
  CHECK(static_cast<double>(load.front()) == Approx(10000 + 2.249 * 98.99).margin(3));
  settings.imbalance = Imbalance::zipf;
  settings.zipf_exponent = 1;
  const auto skewed = rows_per_expert({.experts = 8, .top_k = 2}, 1000, 0, settings);
  CHECK(skewed[0] == Approx(2 * skewed[1]));
  CHECK(std::accumulate(skewed.begin(), skewed.end(), 0.0) == Approx(2000));
  settings.zipf_exponent = 4;  // The first expert would be chosen more than once by a token.
  const auto steep = rows_per_expert({.experts = 8, .top_k = 2}, 1000, 0, settings);
  CHECK(steep[0] == Approx(1000));
  CHECK(std::accumulate(steep.begin(), steep.end(), 0.0) == Approx(2000));
}
