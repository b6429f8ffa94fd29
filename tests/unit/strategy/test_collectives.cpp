// The collectives that lowering derives are those of the papers: which, how many, how many bytes.

#include <map>

#include "core/base/index.hpp"
#include "core/config/settings/choices.hpp"
#include "core/program/body.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/program/lowered.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

using Counts = std::map<CollectiveOp, int>;
constexpr auto kReduce = CollectiveOp::all_reduce;
constexpr auto kGather = CollectiveOp::all_gather;
constexpr auto kScatter = CollectiveOp::reduce_scatter;

/// Tensor-parallel collectives in one call of a body, each checked to move `bytes`.
Counts collectives(const Program& p, const std::string& name, double bytes) {
  Counts out;
  for (const Body& body : p.bodies) {
    if (body.name != name) continue;
    for (const auto v : body.graph.vertices()) {
      const auto* c = std::get_if<CollectiveTask>(&body.graph[v].kind);
      if (c == nullptr) continue;
      ++out[c->op];
      INFO(body.graph[v].name);
      CHECK(nth(p.groups, c->group).axes == AxisSet{Axis::tp});
      CHECK(collective_bytes(p, body, body.graph[v], p.mesh.context(0)) == bytes);
    }
  }
  return out;
}

Job gpt(int tp, bool sequence_parallel, Recompute recompute) {
  Job job(tiny_gpt());
  job.strategy.tp = tp;
  job.strategy.microbatch = 2;
  job.strategy.sequence_parallel = sequence_parallel;
  job.strategy.recompute = recompute;
  return job;
}

constexpr double kMessage = 2.0 * 2 * 32 * 64;  // 2 bytes * b s h

struct CollectivesCall {
  std::string name;
  CollectiveOp op;
  double bytes;
};

/// Collectives of one step of a rank over groups that vary along data-parallel axes only.
std::vector<CollectivesCall> data_parallel_calls(const Program& p, int rank) {
  std::vector<CollectivesCall> out;
  for_each_task(p, rank, [&](const Entry& e, const Body& body, const Task& task) {
    const auto* c = std::get_if<CollectiveTask>(&task.kind);
    if (c == nullptr) return;
    const std::string& group = nth(p.groups, c->group).name;
    if (group == "dp" || group == "dp_replicate")
      out.push_back({task.name, c->op, collective_bytes(p, body, task, context_of(p, rank, e))});
  });
  return out;
}

double total(const std::vector<CollectivesCall>& calls, CollectiveOp op) {
  double bytes = 0;
  for (const CollectivesCall& c : calls) bytes += c.op == op ? c.bytes : 0;
  return bytes;
}

}  // namespace

TEST_CASE(
    "tensor parallelism: an all-reduce after attention and one after the MLP, each way (Shoeybi et al. 2019, fig. 4)") {
  const Program p = gpt(2, false, Recompute::none).lower();
  CHECK(collectives(p, "layer.forward", kMessage) == Counts{{kReduce, 2}});
  CHECK(collectives(p, "layer.backward", kMessage) == Counts{{kReduce, 2}});
}

TEST_CASE("recomputing a layer repeats its forward collectives") {
  CHECK(collectives(gpt(2, false, Recompute::full).lower(), "layer.backward", kMessage) == Counts{{kReduce, 4}});
  CHECK(collectives(gpt(2, false, Recompute::selective).lower(), "layer.backward", kMessage) == Counts{{kReduce, 2}});
  // Under sequence parallelism: two of each again, and inputs are gathered anew for the weight gradients all the same.
  CHECK(collectives(gpt(2, true, Recompute::full).lower(), "layer.backward", kMessage) ==
        Counts{{kGather, 6}, {kScatter, 4}});
}

TEST_CASE(
    "sequence parallelism: all-gathers and reduce-scatters in place of all-reduces (Korthikanti et al. 2022, sec. "
    "4.2.2)") {
  const Program p = gpt(4, true, Recompute::none).lower();
  CHECK(collectives(p, "layer.forward", kMessage) == Counts{{kGather, 2}, {kScatter, 2}});
  // Backward gathers two gradients, and two inputs again, which are kept as slices only.
  CHECK(collectives(p, "layer.backward", kMessage) == Counts{{kGather, 4}, {kScatter, 2}});
}

TEST_CASE("one rank alone communicates nothing") {
  const Program p = gpt(1, true, Recompute::full).lower();
  for_each_task(p, 0, [](const Entry&, const Body&, const Task& task) {
    CHECK_FALSE(std::holds_alternative<CollectiveTask>(task.kind));
  });
}

TEST_CASE("a gated MLP and grouped queries communicate as a GPT layer does") {
  Job job(tiny_llama());
  job.strategy.tp = 2;
  const Program p = job.lower();
  CHECK(collectives(p, "layer.forward", kMessage / 2) == Counts{{kReduce, 2}});
  CHECK(collectives(p, "layer.backward", kMessage / 2) == Counts{{kReduce, 2}});
}

TEST_CASE("a split vocabulary reduces one number per token three times, never the logits") {
  const Program p = gpt(2, false, Recompute::none).lower();
  int reductions = 0;
  for (const Body& body : p.bodies)
    for (const auto v : body.graph.vertices())
      if (body.name == "head.forward" && std::holds_alternative<CollectiveTask>(body.graph[v].kind)) {
        ++reductions;
        CHECK(collective_bytes(p, body, body.graph[v], p.mesh.context(0)) == 4.0 * 2 * 32);
      }
  CHECK(reductions == 3);
}

TEST_CASE("data parallelism reduces every gradient once per step, in buckets") {
  for (const double bucket : {1.0, 3e4, 1e9}) {
    Job job = gpt(1, false, Recompute::none);
    job.strategy.dp = 4;
    job.strategy.bucket = Bytes{bucket};
    const Program p = job.lower();
    const auto calls = data_parallel_calls(p, 0);
    const double gradients = persistent_bytes(p, 0, MemoryCategory::gradients);
    CHECK(total(calls, kReduce) == gradients);
    double largest = 0;
    for (const Tensor& t : p.tensors)
      if (t.category == MemoryCategory::gradients && t.alias_of < 0)
        largest = std::max(largest, p.local_bytes(t, p.mesh.context(0)));
    for (std::size_t i = 0; i < calls.size(); ++i) {
      CHECK(calls[i].bytes < bucket + largest);
      if (i + 1 < calls.size()) CHECK(calls[i].bytes >= bucket);
    }
    if (bucket > gradients) CHECK(calls.size() == 1);
  }
}

TEST_CASE("without overlap gradients are reduced in one call, after the last backward") {
  Job job = gpt(1, false, Recompute::none);
  job.strategy.dp = 2;
  job.strategy.bucket = Bytes{1};
  job.strategy.overlap.grad_reduce = false;
  const Program p = job.lower();
  CHECK(data_parallel_calls(p, 0).size() == 1);
  bool reduced = false;
  for (const Entry& e : p.roles[0].step) {
    const std::string& name = nth(p.bodies, e.body).name;
    reduced |= name == "gradients.reduce";
    if (name.find(".backward") != std::string::npos) CHECK_FALSE(reduced);
  }
}

TEST_CASE("ZeRO-1 reduce-scatters gradients and all-gathers parameters: as many elements as an all-reduce moves") {
  Job job = gpt(2, false, Recompute::none);
  job.strategy.dp = 4;
  job.strategy.zero_stage = 1;
  const Program p = job.lower();
  const auto calls = data_parallel_calls(p, 0);
  CHECK(total(calls, kReduce) == 0);
  CHECK(total(calls, kScatter) == persistent_bytes(p, 0, MemoryCategory::gradients));  // fp32
  CHECK(total(calls, kGather) == persistent_bytes(p, 0, MemoryCategory::weights));     // 2 bytes each
}

TEST_CASE("where groups divide ZeRO-1's state, slices are summed between them, or whole gradients over all") {
  Job job = gpt(2, false, Recompute::none);
  job.strategy.dp = 8;
  job.strategy.dp_shard = 4;
  job.strategy.dp_replicate = 2;
  job.strategy.zero_stage = 1;
  const auto sums = [&] {
    const Program p = job.lower();
    const auto calls = data_parallel_calls(p, 0);
    const double gradients = persistent_bytes(p, 0, MemoryCategory::gradients);
    CHECK(total(calls, kGather) == persistent_bytes(p, 0, MemoryCategory::weights));
    // Master weights and two moments of a quarter of what the rank holds.
    CHECK(persistent_bytes(p, 0, MemoryCategory::optimizer) == 3 * gradients / 4);
    return std::array{total(calls, kScatter) / gradients, total(calls, kReduce) / gradients};
  };
  std::array of = sums();
  CHECK(of[0] == Approx(1.0));
  CHECK(of[1] == Approx(0.25));
  job.workload.kernels.declared.set("framework.whole_gradients", true);
  of = sums();
  CHECK(of[0] == 0);
  CHECK(of[1] == Approx(1.0));
}

TEST_CASE("gradients that sequence parallelism leaves partial are those of norms and row-parallel biases") {
  const Program p = gpt(2, true, Recompute::none).lower();
  double bytes = 0;
  for_each_task(p, 0, [&](const Entry& e, const Body& body, const Task& task) {
    if (body.name == "norm_gradients.reduce") bytes += collective_bytes(p, body, task, context_of(p, 0, e));
  });
  const double h = 64, layers = 4, positions = 128;
  // Per layer two norms (weight, bias) and two biases; the last norm; the position table.
  CHECK(bytes == 4 * (layers * (4 * h + 2 * h) + 2 * h + positions * h));
}

TEST_CASE("a tied embedding is summed over the first and the last stage only") {
  Job job = gpt(2, false, Recompute::none);
  job.strategy.pp = 4;
  const Program p = job.lower();
  for (int rank = 0; rank < p.mesh.ranks(); ++rank) {
    int calls = 0;
    for_each_task(p, rank, [&](const Entry& e, const Body& body, const Task& task) {
      if (body.name != "tied_embedding.reduce") return;
      ++calls;
      const auto& c = std::get<CollectiveTask>(task.kind);
      CHECK(p.mesh.members(nth(p.groups, c.group), rank, p.exprs).size() == 2);
      CHECK(collective_bytes(p, body, task, context_of(p, rank, e)) == 4.0 * 256 * 64 / 2);
    });
    const int stage = nth(p.role_of_rank, rank);
    CHECK(calls == (stage == 0 || stage == 3 ? 1 : 0));
  }
}

TEST_CASE("pipeline messages carry b s h elements, a tp-th of them when scattered or sequence parallel") {
  for (const bool scatter : {false, true})
    for (const bool sequence : {false, true}) {
      Job job = gpt(2, sequence, Recompute::none);
      job.strategy.pp = 2;
      job.strategy.virtual_stages = 2;
      job.strategy.schedule = "interleaved_1f1b";
      job.strategy.scatter_gather = scatter;
      const Program p = job.lower();
      int sent = 0;
      for_each_task(p, 0, [&](const Entry& e, const Body& body, const Task& task) {
        if (const auto* c = std::get_if<CollectiveTask>(&task.kind); c != nullptr && body.name.rfind("send", 0) == 0)
          FAIL("a send needs no collective");
        const auto* m = std::get_if<P2pTask>(&task.kind);
        if (m == nullptr || m->direction != P2pTask::Direction::send) return;
        ++sent;
        CHECK(bytes_of(p, body, task.operands.at(0), context_of(p, 0, e)) == kMessage / (scatter || sequence ? 2 : 1));
      });
      // Stage 0 holds chunks 0 and 2: two forward messages and one backward per microbatch.
      CHECK(sent == 3 * p.microbatches);
    }
}
