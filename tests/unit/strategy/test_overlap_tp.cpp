// Tensor parallelism in pieces: the same bytes and the same products, cut by the sequence.

#include "core/base/index.hpp"
#include "core/program/body.hpp"
#include "core/program/flops.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/program/lowered.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

Job megatron(int tp, bool overlap, Network network) {
  Job job(std::move(network));
  job.strategy.tp = tp;
  job.strategy.sequence_parallel = true;
  job.strategy.overlap.tp = overlap;
  return job;
}

/// What one rank sends over its tensor-parallel group in one call of `body`.
struct Sent {
  double bytes = 0;
  int hops = 0, whole = 0;
};
Sent sent(const Program& p, const std::string& body) {
  Sent out;
  const ExprContext at = p.mesh.context(0);
  const double ranks = nth(at.extent, Axis::tp);
  for (const Body& b : p.bodies)
    for (const auto v : b.graph.vertices()) {
      const auto* c = std::get_if<CollectiveTask>(&b.graph[v].kind);
      if (b.name != body || c == nullptr) continue;
      const double large = collective_bytes(p, b, b.graph[v], at);
      const bool hop = c->op == CollectiveOp::send_recv;
      out.bytes += hop ? large : large * (ranks - 1) / ranks;
      ++(hop ? out.hops : out.whole);
    }
  return out;
}

}  // namespace

TEST_CASE("in pieces as many bytes are sent as by the collectives they stand for") {
  for (const int tp : {2, 4})
    for (const char* body : {"layer.forward", "layer.backward"}) {
      const Sent whole = sent(megatron(tp, false, tiny_gpt()).lower(), body),
                 pieces = sent(megatron(tp, true, tiny_gpt()).lower(), body);
      INFO(body << " tp " << tp);
      CHECK(pieces.bytes == Approx(whole.bytes));
      CHECK(whole.hops == 0);
    }
}

TEST_CASE(
    "forward's four collectives and the gathers of backward's output gradients are cut, the others run beside products "
    "anyway") {
  const int tp = 4;
  const Program p = megatron(tp, true, tiny_gpt()).lower();
  CHECK(sent(p, "layer.forward").whole == 0);
  CHECK(sent(p, "layer.forward").hops == 4 * (tp - 1));
  // Left whole: two inputs gathered again under input gradients, two scattered gradients under weight gradients.
  CHECK(sent(p, "layer.backward").whole == 4);
  CHECK(sent(p, "layer.backward").hops == 2 * (tp - 1));
}

TEST_CASE("pieces of products add up to the products") {
  for (const auto& network : {tiny_gpt(), tiny_llama(), tiny_neox(), shipped("tiny_deepseek")})
    CHECK(executed_matmul_flops(megatron(2, true, network).lower()).value() ==
          Approx(executed_matmul_flops(megatron(2, false, network).lower()).value()));
}

TEST_CASE("every hop has a product beside it to hide under") {
  const Program p = megatron(4, true, tiny_neox()).lower();
  for (const Body& b : p.bodies)
    for (const auto v : b.graph.vertices()) {
      const auto* c = std::get_if<CollectiveTask>(&b.graph[v].kind);
      if (c == nullptr || c->op != CollectiveOp::send_recv) continue;
      // The next task in issue order computes, and does not wait for the hop.
      INFO(b.graph[v].name);
      REQUIRE(v + 1 < b.graph.size());
      CHECK(std::holds_alternative<ComputeTask>(b.graph[v + 1].kind));
      CHECK_FALSE(b.graph.has_edge(v, v + 1));
    }
}

TEST_CASE("without slices of the sequence there is nothing to cut") {
  Job job = megatron(2, true, tiny_gpt());
  job.strategy.sequence_parallel = false;
  try {
    (void)job.lower();
    FAIL("was not refused");
  } catch (const Error& e) {
    CHECK(e.where == "strategy.overlap.tp");
  }
  job.strategy.tp = 1;
  CHECK(job.lower().mesh.ranks() == 1);  // One rank has no communication to hide.
}
