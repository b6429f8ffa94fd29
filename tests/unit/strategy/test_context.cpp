// Context parallelism: bytes on the wire are the papers', work and memory are equal on all ranks, and nothing is
// computed twice.

#include <map>

#include "core/base/index.hpp"
#include "core/config/settings/choices.hpp"
#include "core/program/body.hpp"
#include "core/program/flops.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/program/lowered.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

constexpr std::int64_t kContextSequence = 64;
constexpr double kTwo = 2;             // Bytes of a bf16 number.
constexpr double kContextHidden = 64;  // tiny_llama: 4 heads of 16, 2 of them of keys and values.
constexpr double kContextKeys = 32;

Job split(int cp, ContextExchange how, Network network = tiny_llama()) {
  Job job(std::move(network), kContextSequence);
  job.strategy.cp = cp;
  job.strategy.context = how;
  job.microbatches = 2;
  return job;
}

/// Bytes that a rank sends in one call of `body` over the context-parallel group, by operation.
std::map<CollectiveOp, double> sent(const Program& p, const std::string& body, int rank) {
  std::map<CollectiveOp, double> out;
  for (const Body& b : p.bodies) {
    if (b.name != body) continue;
    for (const auto v : b.graph.vertices()) {
      const auto* c = std::get_if<CollectiveTask>(&b.graph[v].kind);
      if (c == nullptr || nth(p.groups, c->group).name != "cp") continue;
      const ExprContext at = p.mesh.context(rank);
      const double ranks = nth(at.extent, Axis::cp);
      double in = 0, result = 0;
      for (const Operand& o : b.graph[v].operands) (o.access == Access::write ? result : in) += bytes_of(p, b, o, at);
      switch (c->op) {
        case CollectiveOp::send_recv: out[c->op] += in; break;
        case CollectiveOp::all_gather: out[c->op] += result * (ranks - 1) / ranks; break;
        default: out[c->op] += in * (ranks - 1) / ranks; break;
      }
    }
  }
  return out;
}

/// Scores that a rank's attention computes for one head in one call of `body`: causal squares count their half.
double scores(const Program& p, const std::string& body, int rank) {
  double out = 0;
  const ExprContext at = p.mesh.context(rank);
  for (const Body& b : p.bodies)
    for (const auto v : b.graph.vertices()) {
      const auto* c = std::get_if<ComputeTask>(&b.graph[v].kind);
      if (b.name != body || c == nullptr || (c->op != ComputeOp::attention && c->op != ComputeOp::attention_grad))
        continue;
      const auto q = static_cast<double>(p.exprs.evaluate(c->dims[3], at)),
                 k = static_cast<double>(p.exprs.evaluate(c->dims[4], at));
      out += c->causal ? q * (k - q / 2) : q * k;
    }
  return out;
}

Error refusal_context(const Job& job) {
  try {
    (void)job.lower();
  } catch (const Error& e) {
    return e;
  }
  FAIL("was not refused");
  throw std::logic_error("unreachable");
}

}  // namespace

TEST_CASE(
    "ring attention: k - 1 hops of keys and values, and as many again of them and their gradients (Liu et al. 2023)") {
  for (const int cp : {2, 4, 8}) {
    INFO(cp);
    const Program p = split(cp, ContextExchange::ring).lower();
    const double block = kTwo * 2 * kContextKeys * kContextSequence / cp;  // K and V of the kv heads alone.
    for (int rank = 0; rank < cp; ++rank) {
      CHECK(sent(p, "layer.forward", rank) ==
            std::map<CollectiveOp, double>{{CollectiveOp::send_recv, (cp - 1) * block}});
      CHECK(sent(p, "layer.backward", rank) ==
            std::map<CollectiveOp, double>{{CollectiveOp::send_recv, 2 * (cp - 1) * block}});
    }
  }
}

TEST_CASE(
    "PyTorch's context_parallel sends keys and values of every query head, their gradients in fp32, and waits for "
    "them") {
  const int cp = 4;
  Job job = split(cp, ContextExchange::ring);
  job.workload.kernels.samples_first = true;
  const Program p = job.lower();
  validate(p);
  const double block = kTwo * 2 * kContextHidden * kContextSequence / cp;
  for (int rank = 0; rank < cp; ++rank) {
    CHECK(sent(p, "layer.forward", rank) ==
          std::map<CollectiveOp, double>{{CollectiveOp::send_recv, (cp - 1) * block}});
    CHECK(sent(p, "layer.backward", rank) ==
          std::map<CollectiveOp, double>{{CollectiveOp::send_recv, (1 + 2) * (cp - 1) * block}});
  }
  for (const Body& b : p.bodies)
    for (const auto v : b.graph.vertices()) {
      const auto* c = std::get_if<ComputeTask>(&b.graph[v].kind);
      if (c == nullptr || (c->op != ComputeOp::attention && c->op != ComputeOp::attention_grad)) continue;
      const auto& before = b.graph.before(v);
      CHECK(std::any_of(before.begin(), before.end(), [&](TaskGraph::Vertex earlier) {
        return std::holds_alternative<CollectiveTask>(b.graph[earlier].kind);
      }));
    }
}

TEST_CASE(
    "Ulysses: q, k, v and the output change hands once each way, 1/k of a rank's part staying (Jacobs et al. 2023)") {
  const int cp = 2;
  const Program p = split(cp, ContextExchange::ulysses).lower();
  const double bytes = kTwo * (2 * kContextHidden + 2 * kContextKeys) * kContextSequence / cp * (cp - 1) / cp;
  CHECK(sent(p, "layer.forward", 1) == std::map<CollectiveOp, double>{{CollectiveOp::all_to_all, bytes}});
  CHECK(sent(p, "layer.backward", 1) == std::map<CollectiveOp, double>{{CollectiveOp::all_to_all, bytes}});
}

TEST_CASE(
    "gathered keys and values: once forward, again backward, and their gradients scattered (Dubey et al. 2024, sec. "
    "3.3.2)") {
  const int cp = 4;
  const Program p = split(cp, ContextExchange::allgather).lower();
  const double bytes = kTwo * 2 * kContextKeys * kContextSequence * (cp - 1) / cp;
  CHECK(sent(p, "layer.forward", 0) == std::map<CollectiveOp, double>{{CollectiveOp::all_gather, bytes}});
  CHECK(sent(p, "layer.backward", 0) ==
        std::map<CollectiveOp, double>{{CollectiveOp::all_gather, bytes}, {CollectiveOp::reduce_scatter, bytes}});
}

TEST_CASE("every rank computes the same number of scores, a k-th of all") {
  for (const bool causal : {true, false})
    for (const ContextExchange how : {ContextExchange::ring, ContextExchange::allgather}) {
      const int cp = 4;
      const Program p = split(cp, how, causal ? tiny_gpt() : shipped("tiny_bert")).lower();
      const double all = static_cast<double>(kContextSequence * kContextSequence) / (causal ? 2 : 1);
      INFO(name_of(how) << " causal " << causal);
      for (int rank = 0; rank < cp; ++rank) {
        CHECK(scores(p, "layer.forward", rank) == Approx(all / cp));
        CHECK(scores(p, "layer.backward", rank) == Approx(all / cp));
      }
    }
}

TEST_CASE("FLOPs of the whole job are those of one rank") {
  for (const auto& network : {tiny_gpt(), tiny_llama(), shipped("tiny_bert"), shipped("tiny_deepseek")}) {
    const double one = executed_matmul_flops(split(1, ContextExchange::ring, network).lower()).value();
    for (const ContextExchange how : {ContextExchange::ring, ContextExchange::ulysses, ContextExchange::allgather})
      CHECK(executed_matmul_flops(split(2, how, network).lower()).value() == Approx(one).epsilon(1e-12));
  }
}

TEST_CASE("activations are divided by cp, and what is kept of attention is one block of keys and values") {
  const auto saved = [](const Program& p) {
    double bytes = 0;
    for (const Tensor& t : p.tensors)
      if (t.lifetime == Lifetime::saved) bytes += p.local_bytes(t, p.mesh.context(0));
    return bytes;
  };
  const double one = saved(split(1, ContextExchange::ring).lower());
  CHECK(saved(split(4, ContextExchange::ring).lower()) == Approx(one / 4));
  CHECK(saved(split(4, ContextExchange::allgather).lower()) == Approx(one / 4));
}

TEST_CASE("gradients are summed over cp, and optimizer state is divided over dp * cp") {
  Job job = split(2, ContextExchange::ring);
  const Program whole = job.lower();
  int reductions = 0;
  for_each_task(whole, 0, [&](const Entry&, const Body&, const Task& task) {
    const auto* c = std::get_if<CollectiveTask>(&task.kind);
    if (c == nullptr || nth(whole.groups, c->group).name != "dp") return;
    ++reductions;
    CHECK(nth(whole.groups, c->group).axes == AxisSet{Axis::cp});
    CHECK(whole.exprs.evaluate(c->divisor, whole.mesh.context(0)) == 1);  // Terms of one mean, not means.
  });
  CHECK(reductions > 0);
  job.strategy.dp = job.strategy.dp_replicate = 2;
  job.strategy.zero_stage = 1;
  const Program sharded = job.lower();
  CHECK(persistent_bytes(sharded, 0, MemoryCategory::optimizer) ==
        Approx(persistent_bytes(whole, 0, MemoryCategory::optimizer) / 4).epsilon(0.01));
  job.strategy.zero_stage = 0;
  job.strategy.fsdp.enabled = true;
  job.strategy.dp_shard = 2;
  job.strategy.dp_replicate = 1;
  CHECK(persistent_bytes(job.lower(), 0, MemoryCategory::optimizer) ==
        Approx(persistent_bytes(whole, 0, MemoryCategory::optimizer) / 4).epsilon(0.01));
}

TEST_CASE("what context parallelism cannot do is refused with the reason") {
  Job job = split(4, ContextExchange::ring);
  job.workload.training.sequence_length = 60;
  CHECK(refusal_context(job).where == "strategy.cp");
  CHECK_THAT(refusal_context(job).what(), Catch::Matchers::ContainsSubstring("60) % 8 = 4"));
  job = split(4, ContextExchange::ulysses);
  CHECK(refusal_context(job).where == "strategy.context");
  CHECK_THAT(refusal_context(job).what(), Catch::Matchers::ContainsSubstring("num_key_value_heads(2)"));
  job = split(2, ContextExchange::ring);
  job.workload.kernels.attention = AttentionKernel::unfused;
  CHECK(refusal_context(job).where == "kernels.attention");
  job = Job(shipped("resnet50"), 0);
  job.strategy.cp = 2;
  CHECK(refusal_context(job).where == "strategy.cp");
}
