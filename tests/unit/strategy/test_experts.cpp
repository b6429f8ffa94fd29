// Expert parallelism: who holds what, which rows go where, and over whom gradients are reduced.

#include <algorithm>
#include <numeric>
#include <set>

#include "core/base/index.hpp"
#include "core/program/body.hpp"
#include "core/program/flops.hpp"
#include "core/strategy/operators/expert_plan.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/program/lowered.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

constexpr double kTokens = 32, kExpertsHidden = 64;  // Of one rank and microbatch, where tp is 1.

Job moe(int dp, int ep, const std::string& model = "tiny_mixtral") {
  Job job(shipped(model));
  job.strategy.dp = job.strategy.dp_replicate = dp;
  job.strategy.ep = ep;
  return job;
}

struct ExpertsCall {
  std::string task, group;
  CollectiveOp op;
  double bytes;
};

/// Collectives in one call of a body, with what rank 0 gives to each.
std::vector<ExpertsCall> calls(const Program& p, const std::string& name, int rank = 0) {
  std::vector<ExpertsCall> out;
  for (const Body& body : p.bodies) {
    if (body.name != name) continue;
    for (const auto v : body.graph.vertices())
      if (const auto* c = std::get_if<CollectiveTask>(&body.graph[v].kind)) {
        double given = 0;
        for (const Operand& o : body.graph[v].operands)
          if (o.access != Access::write) given += bytes_of(p, body, o, p.mesh.context(rank));
        out.push_back({body.graph[v].name, nth(p.groups, c->group).name, c->op, given});
      }
  }
  return out;
}

double given(const std::vector<ExpertsCall>& all, const std::string& task) {
  double bytes = 0;
  for (const ExpertsCall& c : all) bytes += c.task == task ? c.bytes : 0;
  return bytes;
}

std::size_t count(const std::vector<ExpertsCall>& all, CollectiveOp op) {
  return static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [op](const ExpertsCall& c) { return c.op == op; }));
}

const Tensor& tensor(const Program& p, const std::string& name) {
  return *std::find_if(p.tensors.begin(), p.tensors.end(), [&](const Tensor& t) { return t.name == name; });
}

Error refusal_experts(const Job& job) {
  try {
    (void)job.lower();
  } catch (const Error& e) {
    return e;
  }
  FAIL("accepted");
  throw std::logic_error("unreachable");
}

/// Executed FLOPs of one task over all ranks, as the Program counts them.
double rows_of(const Program& p, int rank) {
  return static_cast<double>(p.local_extent(tensor(p, "layer.moe.dispatch"), 0, p.mesh.context(rank)));
}

}  // namespace

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
