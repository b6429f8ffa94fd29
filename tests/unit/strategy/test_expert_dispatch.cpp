// Expert parallelism: how dispatchers move tokens, what is refused, and what stands beside experts.

#include <algorithm>
#include <numeric>
#include <set>

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
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

TEST_CASE("node-limited routing visits few nodes") {
  CHECK(nodes_visited({.experts = 256, .top_k = 8, .groups = 8, .limit = 4}, 8) ==
        Approx(4 * (1 - 0.092747)).epsilon(1e-5));
  CHECK(nodes_visited({.experts = 256, .top_k = 8}, 8) == Approx(8 * (1 - 0.338168)).epsilon(1e-5));
  CHECK(nodes_visited({.experts = 8, .top_k = 1}, 8) == Approx(1));
  CHECK(nodes_visited({.experts = 8, .top_k = 8}, 4) == Approx(4));
}

TEST_CASE("hierarchical dispatch sends one copy of a token to each node it visits, and hands it on inside") {
  Job job = moe(8, 8, "tiny_deepseek");
  const Program flat = job.lower();
  job.strategy.dispatch = Dispatch::hierarchical;
  const Program p = job.lower();
  validate(p);
  const auto forward = calls(p, "layer.forward");
  const double k = 4,
               copies = std::round(kTokens * nodes_visited({.experts = 16, .top_k = 4, .groups = 4, .limit = 2}, 4));
  CHECK(given(forward, "moe.dispatch.dispatch.nodes") == copies * 2 * kExpertsHidden + k * kTokens * 4);
  CHECK(given(forward, "moe.dispatch.dispatch") == k * kTokens * (2 * kExpertsHidden + 4));
  CHECK(given(forward, "moe.combine.combine.nodes") == copies * 2 * kExpertsHidden);
  for (const GroupSpec& g : p.groups) {
    if (g.name == "ep.nodes") CHECK(p.mesh.members(g, 3, p.exprs) == std::vector<int>{1, 3, 5, 7});
    if (g.name == "ep.node") CHECK(p.mesh.members(g, 3, p.exprs) == std::vector<int>{2, 3});
  }
  // Between nodes go 3/4 of the copies instead of 6/8 of k rows.
  CHECK(copies * 3 / 4 < k * kTokens * 6 / 8 / 1.9);
  CHECK(executed_matmul_flops(p).value() == executed_matmul_flops(flat).value());
}

TEST_CASE("copies of tokens are moved by a dispatcher's own kernels, rows of each expert by the library") {
  Job job = moe(8, 8, "tiny_deepseek");
  for (const bool copies : {false, true}) {
    job.strategy.dispatch = copies ? Dispatch::hierarchical : Dispatch::all_to_all;
    int seen = 0;
    for (const Body& body : job.lower().bodies)
      for (const auto v : body.graph.vertices())
        if (const auto* c = std::get_if<CollectiveTask>(&body.graph[v].kind);
            c != nullptr && c->op == CollectiveOp::all_to_all && body.graph[v].operands.size() > 1) {
          CHECK((c->direct == copies || body.graph[v].name.ends_with(".sizes")));
          ++seen;
        }
    CHECK(seen > 0);
  }
}

TEST_CASE(
    "bodies that are interleaved take turns at their exchanges alone: before them what ends in one, after them what "
    "follows") {
  Job job = moe(4, 4, "tiny_deepseek");
  job.strategy.tp = 2;
  job.strategy.sequence_parallel = true;
  job.strategy.schedule = "paired_1f1b";
  for (const int node : {0, 1, 2}) {
    CAPTURE(node);
    job.strategy.dispatch = node > 0 ? Dispatch::hierarchical : Dispatch::all_to_all;
    job.strategy.dispatch_node = node;
    const Program p = job.lower();
    int seen = 0;
    for (const Body& body : p.bodies) {
      if (body.name != "layer.forward" && body.name != "layer.backward") continue;
      const auto exchanges = [&](std::int32_t first, std::int32_t last) {
        std::set<std::string> out;  // Of dispatch, or of combine.
        for (std::int32_t v = first; v < last; ++v)
          if (const Task& t = nth(body.graph, v);
              std::holds_alternative<CollectiveTask>(t.kind) && !t.name.ends_with(".sizes"))
            for (const char* op : {"moe.dispatch", "moe.combine"})
              if (t.name.starts_with(op)) out.insert(op);
        return out;
      };
      const auto end = static_cast<std::int32_t>(body.graph.size());
      if (exchanges(0, end).empty()) continue;  // The layer without experts.
      REQUIRE(body.segments.size() == 2);
      const bool back = body.name == "layer.backward";
      CHECK(exchanges(0, body.segments[0]) == std::set<std::string>{back ? "moe.combine" : "moe.dispatch"});
      CHECK(exchanges(body.segments[0], body.segments[1]) ==
            std::set<std::string>{back ? "moe.dispatch" : "moe.combine"});
      CHECK(exchanges(body.segments[1], end).empty());
      ++seen;
    }
    CHECK(seen == 2);
  }
}

TEST_CASE("one copy of a token for each rank it visits becomes rows there, and rows are added up before they leave") {
  Job job = moe(8, 8, "tiny_deepseek");
  const Program flat = job.lower();
  job.strategy.dispatch = Dispatch::hierarchical;
  job.strategy.dispatch_node = 1;
  const Program p = job.lower();
  validate(p);
  const auto forward = calls(p, "layer.forward");
  const double k = 4,
               copies = std::round(kTokens * nodes_visited({.experts = 16, .top_k = 4, .groups = 4, .limit = 2}, 8));
  CHECK(copies < k * kTokens);
  CHECK(given(forward, "moe.dispatch.dispatch.nodes") == copies * 2 * kExpertsHidden + k * kTokens * 4);
  CHECK(given(forward, "moe.combine.combine.nodes") == copies * 2 * kExpertsHidden);
  for_each_task(p, 0, [](const Entry&, const Body&, const Task& task) {
    CHECK(task.name != "moe.dispatch.dispatch");
    CHECK(task.name != "moe.dispatch.sort");
    CHECK(task.name != "moe.combine.unsort");
  });
  CHECK(executed_matmul_flops(p).value() == executed_matmul_flops(flat).value());
}

TEST_CASE("fused experts move no bytes for their activation and the casts beside it") {
  Job job = moe(2, 2);
  job.workload.training.precision = Precision::fp8_mixed;
  const auto passes = [&](const std::string& name) {
    double sum = 0;
    for_each_task(job.lower(), 0, [&](const Entry&, const Body&, const Task& task) {
      if (const auto* c = std::get_if<ComputeTask>(&task.kind); c != nullptr && task.name == name) sum += c->passes;
    });
    return sum;
  };
  const std::vector<std::string> inside{"moe.silu_mul", "moe.silu_mul.input_grad", "moe.down.input.cast",
                                        "moe.gate_up.output_grad.cast"};
  const std::vector<std::string> outside{"moe.gate_up.input.cast", "moe.down.output_grad.cast", "norm2"};
  std::map<std::string, double> apart;
  for (const auto& names : {inside, outside})
    for (const std::string& name : names) apart[name] = passes(name);
  for (const std::string& name : inside) CHECK(apart[name] > 0);
  job.workload.kernels.fused_experts = true;
  for (const std::string& name : inside) CHECK(passes(name) == 0);
  for (const std::string& name : outside) CHECK(passes(name) == apart[name]);
}

TEST_CASE("what makes no sense with experts is refused with the reason") {
  Job job = moe(4, 3);
  job.strategy.dp = job.strategy.dp_replicate = 3;
  CHECK(std::string(refusal_experts(job).what()) == "ep(3) does not divide experts(8)");
  job = moe(4, 8);
  CHECK(std::string(refusal_experts(job).what()) == "etp(1) * ep(8) = 8 does not divide dp(4) * cp(1) * tp(1) = 4");
  job = moe(2, 2);
  job.strategy.tp = 2;
  CHECK(refusal_experts(job).where == "strategy.sequence_parallel");
  job = moe(4, 4);
  job.strategy.dispatch = Dispatch::hierarchical;
  CHECK(refusal_experts(job).where == "strategy.dispatch_node");
  job.strategy.dispatch_node = 2;
  CHECK_NOTHROW(job.lower());
  job.strategy.dispatch_node = 4;
  CHECK(refusal_experts(job).where == "strategy.dispatch_node");
  job = moe(4, 4);
  job.workload.training.experts.pad_to_capacity = true;
  CHECK(refusal_experts(job).where == "training.experts.pad_to_capacity");
  job = Job(tiny_gpt());
  job.strategy.dp = job.strategy.dp_replicate = 2;
  job.strategy.ep = 2;
  CHECK(refusal_experts(job).where == "strategy.ep");
}

TEST_CASE("a balancing loss over the whole batch reduces one number per expert") {
  Job job = moe(4, 1);
  job.workload.training.statistics = StatisticsScope::global;
  const auto forward = calls(job.lower(), "layer.forward");
  REQUIRE(forward.size() == 1);
  CHECK(forward.front().bytes == 8 * 4);
  CHECK(forward.front().op == CollectiveOp::all_reduce);
}

TEST_CASE("latent attention under sequence parallelism: latents are slices, gathered before they are projected up") {
  Job job = moe(2, 2, "tiny_deepseek");
  job.strategy.tp = 2;
  job.strategy.sequence_parallel = true;
  const Program p = job.lower();
  validate(p);
  const auto forward = calls(p, "dense_layer.forward");
  const double slice = 2 * kTokens / 2;
  CHECK(given(forward, "attention.q_up.all_gather") == slice * 24);
  CHECK(given(forward, "attention.kv_up.all_gather") == slice * 16);
  CHECK(given(forward, "attention.k.all_gather") == slice * 8);
  CHECK(executed_matmul_flops(p).value() == p.model_flops_per_step);
}

TEST_CASE("the prediction module shares the word table across stages and the output projection on its own") {
  Job job = moe(2, 2, "tiny_deepseek");
  job.strategy.pp = 2;
  const Program p = job.lower();
  validate(p);
  const auto held = [&](int rank, const std::string& name) {
    int n = 0;
    for (const auto& h : nth(p.roles, nth(p.role_of_rank, rank)).persistent) n += nth(p.tensors, h.tensor).name == name;
    return n;
  };
  CHECK(held(0, "embedding.word.weight") == 1);
  CHECK(held(2, "head.mtp1.word.weight") == 1);
  CHECK(held(2, "head.logits.weight") == 1);
  CHECK(held(2, "head.mtp1.logits.weight") == 0);
  int tied = 0;
  for_each_task(p, 2, [&](const Entry&, const Body& body, const Task& task) {
    if (task.name == "tied_embedding") tied += nth(body.formals, task.operands[0].formal).bound;
  });
  CHECK(tied == 1);
}

TEST_CASE("experts keep their rows, gate, up and inner values: k (h + 3f) numbers a token beside the dense part") {
  const auto saved = [](const Program& p) {
    double bytes = 0;
    for (const Tensor& t : p.tensors)
      if (t.lifetime == Lifetime::saved && t.name.starts_with("layer.moe.") && t.dtype == DType::bf16)
        bytes += p.local_bytes(t, p.mesh.context(0));
    return bytes;
  };
  CHECK(saved(moe(4, 4).lower()) == 2 * kTokens * 2 * (kExpertsHidden + 3 * 96));
}

TEST_CASE("uneven layers: stages differ by one layer where they may") {
  Job job = moe(1, 1, "tiny_deepseek");
  job.strategy.pp = 3;
  CHECK(std::string(refusal_experts(job).what()) == "layers(4) do not divide by pp(3)");
  job.strategy.uneven_layers = true;
  const Program p = job.lower();
  validate(p);
  CHECK(executed_matmul_flops(p).value() == p.model_flops_per_step);
  job.strategy.pp = 5;
  CHECK_THROWS_AS(job.lower(), Error);
}

TEST_CASE("experts lower whatever else adds tensors beside them") {
  // The list of tensors grows while a router is lowered; with these it used to move at that moment.
  Job job(shipped("tiny_mixtral"));
  StrategySettings& s = job.strategy;
  s.tp = 4;
  s.sequence_parallel = s.overlap.tp = true;
  s.dp = s.dp_replicate = s.ep = 2;
  job.workload.kernels.attention = AttentionKernel::unfused;
  for (const bool fused : {true, false})
    for (const Offload offload : {Offload::none, Offload::optimizer})
      for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        job.workload.kernels.fused_norm = fused;
        s.offload = offload;
        s.recompute = recompute;
        CHECK_NOTHROW(validate(job.lower()));
      }
}
