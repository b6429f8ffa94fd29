// Peak memory by liveness: one body worked out by hand, then facts of whole steps.

#include "core/base/index.hpp"
#include "core/config/settings/choices.hpp"
#include "core/program/body.hpp"
#include "core/program/liveness.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/program/lowered.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

/// One rank, one role, one body: a -> b -> c with a kept from before and c handed on.
Program by_hand() {
  Program p;
  Island one;
  one.order = {{Axis::tp, 1}};
  p.mesh = Mesh({one}, Join::none);
  p.device_of_rank = {0};
  p.role_of_rank = {0};
  p.streams = {{"compute"}};
  const auto tensor = [&](const char* name, std::int64_t bytes, Lifetime lifetime, MemoryCategory category) {
    Tensor t;
    t.name = name;
    t.shape = {p.exprs.constant(bytes)};
    t.dtype = DType::uint8;
    t.lifetime = lifetime;
    t.category = category;
    p.tensors.push_back(t);
  };
  tensor("weight", 1000, Lifetime::persistent, MemoryCategory::weights);
  tensor("a", 100, Lifetime::scratch, MemoryCategory::activations);
  tensor("b", 60, Lifetime::scratch, MemoryCategory::communication);
  tensor("c", 30, Lifetime::saved, MemoryCategory::activations);
  Tensor view = p.tensors[1];
  view.name = "a.view";
  view.alias_of = 1;
  p.tensors.push_back(view);
  Body body;
  body.name = "body";
  body.formals = {{"weight", 0, true}, {"a", 1, false}, {"b", 2, false}, {"c", 3, true}, {"view", 4, false}};
  const auto task = [&](const char* name, std::vector<Operand> operands) {
    Task t;
    t.name = name;
    t.kind = ComputeTask{};
    t.operands = std::move(operands);
    body.graph.add(t);
  };
  task("make a", {{0, Access::read}, {1, Access::write}});
  task("make b", {{1, Access::read}, {2, Access::write}});
  task("make c", {{2, Access::read}, {3, Access::write}});
  task("look", {{4, Access::read}});
  Body drop;
  drop.name = "drop";
  drop.formals = {{"c", 3, true}};
  Task last;
  last.name = "drop";
  last.kind = ComputeTask{};
  last.operands = {{0, Access::read}};
  drop.graph.add(last);
  p.bodies = {body, drop};
  p.binding_sets = {{{0, {}}, {3, {}, true, false}}, {{3, {}, false, true}}};
  Role role;
  role.name = "only";
  role.step.resize(2);
  role.step[1].body = role.step[1].bindings = 1;
  role.persistent = {{0, -1}};
  p.roles = {role};
  return p;
}

Job gpt(Recompute recompute) {
  Job job(tiny_gpt());
  job.workload.kernels.attention = AttentionKernel::unfused;
  job.strategy.recompute = recompute;
  return job;
}

}  // namespace

TEST_CASE("scratch lives from its first to its last use, a view keeps what it looks at") {
  Program p = by_hand();
  validate(p);
  auto peak = peak_memory(p, Bytes{7}, Bytes{5}).at(0);
  // a stays for the view: all of a, b and c at "make c".
  CHECK(peak.peak.value() == 1000 + 100 + 60 + 30 + 7 + 5);
  CHECK(peak.peak_at == "body, block 0, microbatch 0, at make c");
  CHECK(nth(peak.by_category, MemoryCategory::communication).value() == 60);
  CHECK(nth(peak.by_category, MemoryCategory::workspace).value() == 7);
  // Without the view a ends where b begins to be read.
  TaskGraph without;
  for (const auto v : p.bodies[0].graph.vertices()) without.add(p.bodies[0].graph[v]);
  for (const TaskGraph::Edge& e : p.bodies[0].graph.edges())
    if (e.from != 3 && e.to != 3) without.add_edge(e.from, e.to);
  p.bodies[0].graph = std::move(without);
  p.bodies[0].graph[3].operands = {{0, Access::read}};
  peak = peak_memory(p, Bytes{0}, Bytes{0}).at(0);
  CHECK(peak.peak.value() == 1000 + 100 + 60);
  CHECK(peak.peak_at == "body, block 0, microbatch 0, at make b");
}

TEST_CASE("other memory spaces do not count against the device") {
  Program p = by_hand();
  p.tensors[0].space = MemorySpace::pinned_host;
  const auto peak = peak_memory(p, Bytes{0}, Bytes{0}).at(0);
  CHECK(peak.peak.value() == 190);
  CHECK(nth(peak.peak_by_space, MemorySpace::pinned_host).value() == 1000);
  CHECK(nth(peak.peak_by_space, MemorySpace::device) == peak.peak);
}

TEST_CASE("what a predicate skips takes no memory") {
  Program p = by_hand();
  SECTION("a task's scratch") {
    p.bodies[0].graph[3].predicate = ExprPool::kZero;  // The view that keeps a.
    CHECK(peak_memory(p, Bytes{0}, Bytes{0}).at(0).peak.value() == 1000 + 100 + 60);
  }
  SECTION("a call") {
    for (Entry& e : p.roles[0].step) e.predicate = ExprPool::kZero;
    CHECK(peak_memory(p, Bytes{0}, Bytes{0}).at(0).peak.value() == 1000);
  }
  SECTION("in the calls for which it is zero only") {
    p.bodies[0].graph[3].predicate = p.exprs.apply(ExprOp::eq, p.exprs.variable(Var::microbatch), p.exprs.constant(1));
    CHECK(peak_memory(p, Bytes{0}, Bytes{0}).at(0).peak.value() == 1160);
    p.roles[0].step[0].microbatch = 1;
    CHECK(peak_memory(p, Bytes{0}, Bytes{0}).at(0).peak.value() == 1190);
  }
  SECTION("storage that calls hand on does not depend on who touches it") {
    p.bodies[1].graph[0].predicate = ExprPool::kZero;
    p.roles[0].step.insert(p.roles[0].step.end(), p.roles[0].step.begin(), p.roles[0].step.end());
    CHECK(peak_memory(p, Bytes{0}, Bytes{0}).at(0).peak.value() == 1190);  // c went before it was made again.
  }
}

TEST_CASE("a release after an event leaves the storage until the entry that records it has been passed") {
  Program p = by_hand();
  // c dropped by the second call, the body once more, then an entry that records the event.
  p.roles[0].events = 1;
  p.binding_sets[1][0].release_after = 0;
  p.tensors[3].per_microbatch = true;
  Entry again = p.roles[0].step[0];
  again.microbatch = 1;
  p.roles[0].step.push_back(again);
  p.roles[0].step.back().record = 0;
  CHECK(peak_memory(p, Bytes{0}, Bytes{0}).at(0).peak.value() == 1190 + 30);
  std::swap(p.roles[0].step[1], p.roles[0].step[2]);
  CHECK(peak_memory(p, Bytes{0}, Bytes{0}).at(0).peak.value() == 1190 + 30);
  p.roles[0].step.resize(2);  // Both microbatches, c of neither dropped: two of them.
  p.roles[0].step.push_back(p.roles[0].step[0]);
  CHECK(peak_memory(p, Bytes{0}, Bytes{0}).at(0).peak.value() == 1190 + 60);
}

TEST_CASE("the worst rank of a role is found where slices are uneven or only some ranks run a task") {
  Program p = by_hand();
  Island four;
  four.order = {{Axis::tp, 4}};
  p.mesh = Mesh({four}, Join::none);
  p.device_of_rank = {0, 1, 2, 3};
  p.role_of_rank = {0, 0, 0, 0};
  SECTION("slices by length") {
    Shard shard = shard_on(0);
    shard.parts = {10, 20, 60, 10};
    p.tensors[1].layout = {{Axis::tp, shard}};
    const auto peak = peak_memory(p, Bytes{0}, Bytes{0}).at(0);
    CHECK(peak.rank == 2);
    CHECK(peak.peak.value() == 1000 + 60 + 60 + 30);
  }
  SECTION("slices by rounding: 1000 in four of 250, 1001 in three of 251 and one of 248") {
    p.tensors[0].layout = {{Axis::tp, shard_on(0)}};
    CHECK(peak_memory(p, Bytes{0}, Bytes{0}).at(0).peak.value() == 250 + 190);
    p.tensors[0].shape = {p.exprs.constant(1001)};
    CHECK(peak_memory(p, Bytes{0}, Bytes{0}).at(0).peak.value() == 251 + 190);
  }
  SECTION("a task of the last rank") {
    p.bodies[0].graph[3].predicate = p.exprs.apply(ExprOp::eq, p.exprs.coord(Axis::tp), p.exprs.constant(3));
    const auto peak = peak_memory(p, Bytes{0}, Bytes{0}).at(0);
    CHECK(peak.rank == 3);
    CHECK(peak.peak.value() == 1190);
  }
}

TEST_CASE("recomputing more keeps less") {
  const auto peak = [](Recompute r) { return peak_of_stage(gpt(r).lower(), 0); };
  CHECK(peak(Recompute::full) < peak(Recompute::selective));
  CHECK(peak(Recompute::selective) < peak(Recompute::none));
}

TEST_CASE("ZeRO-1 divides optimizer state by dp and nothing else") {
  Job job = gpt(Recompute::none);
  job.strategy.dp = 4;
  const Program whole = job.lower();
  job.strategy.zero_stage = 1;
  const Program shared = job.lower();
  CHECK(persistent_bytes(shared, 0, MemoryCategory::optimizer) ==
        Approx(persistent_bytes(whole, 0, MemoryCategory::optimizer) / 4));
  CHECK(persistent_bytes(shared, 0, MemoryCategory::gradients) ==
        persistent_bytes(whole, 0, MemoryCategory::gradients));
  CHECK(persistent_bytes(shared, 0, MemoryCategory::weights) == persistent_bytes(whole, 0, MemoryCategory::weights));
}

TEST_CASE("18 bytes per parameter in mixed precision with fp32 gradients, 16 with the model's") {
  Job job = gpt(Recompute::none);
  const auto state = [&] {
    const Program p = job.lower();
    return (persistent_bytes(p, 0, MemoryCategory::weights) + persistent_bytes(p, 0, MemoryCategory::gradients) +
            persistent_bytes(p, 0, MemoryCategory::optimizer)) /
           static_cast<double>(job.workload.network.parameter_count());
  };
  CHECK(state() == 18);
  job.workload.training.gradient_dtype = GradientDtype::model;
  CHECK(state() == 16);
  job.workload.training.precision = Precision::fp32;
  CHECK(state() == 16);
}

TEST_CASE("under 1F1B the first stage keeps most, each later one a microbatch less") {
  Job job(shipped("gpt3_175b"), 2048);
  job.strategy.tp = 8;
  job.strategy.pp = 8;
  job.microbatches = 16;
  const auto memory = peak_memory(job.lower(), Bytes{0}, Bytes{0});
  REQUIRE(memory.size() == 8);
  const auto activations = [&](std::size_t stage) {
    return nth(memory[stage].by_category, MemoryCategory::activations);
  };
  for (std::size_t s = 1; s < 8; ++s) {
    INFO(s);
    CHECK(memory[s].peak < memory[0].peak);
    CHECK(activations(s) < activations(0));
    // Equal steps between the inner stages.
    if (s > 1 && s < 6)
      CHECK((activations(s) - activations(s + 1)).value() == Approx((activations(1) - activations(2)).value()));
  }
}

TEST_CASE("GPipe keeps every microbatch, 1F1B only those in flight") {
  Job job = gpt(Recompute::none);
  job.strategy.pp = 2;
  const auto peak = [&](const char* schedule, int microbatches) {
    job.strategy.schedule = schedule;
    job.microbatches = microbatches;
    return peak_of_stage(job.lower(), 0).value();
  };
  CHECK(peak("1f1b", 4) == peak("1f1b", 16));
  CHECK(peak("gpipe", 16) - peak("gpipe", 8) == Approx(2 * (peak("gpipe", 8) - peak("gpipe", 4))));
}
