// Layers of Mamba-2: who holds what, what is kept, what is refused.

#include <algorithm>

#include "core/base/index.hpp"
#include "core/program/body.hpp"
#include "core/program/flops.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/program/lowered.hpp"
#include "tests/unit/strategy/saved.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

Job hybrid(int tp = 1) {
  Job job(shipped("tiny_nemotron_h"));
  job.strategy.tp = tp;
  job.strategy.sequence_parallel = tp > 1;  // As experts ask for.
  return job;
}

const BlockSpec& mamba_layer(const Network& network) {
  return *std::find_if(network.blocks.begin(), network.blocks.end(),
                       [](const BlockSpec& b) { return b.name == "mamba_layer"; });
}
const OpSpec& recurrence(const Network& network) {
  const auto& ops = mamba_layer(network).ops;
  return *std::find_if(ops.begin(), ops.end(), [](const OpSpec& op) { return op.kind == OpKind::state_space; });
}

std::int64_t local_elements(const Program& p, const std::string& name) {
  const auto found =
      std::find_if(p.tensors.begin(), p.tensors.end(), [&](const Tensor& t) { return t.name.ends_with(name); });
  REQUIRE(found != p.tensors.end());
  return p.local_elements(*found, p.mesh.context(0));
}

std::string refusal_state_space(const Job& job) {
  try {
    (void)job.lower();
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

}  // namespace

TEST_CASE("tensor parallelism deals out heads and their groups, and what belongs to them") {
  const Program whole = hybrid().lower(), split = hybrid(2).lower();
  for (const char* name : {"mamba_layer.mamba.z", "mamba_layer.mamba.x", "mamba_layer.mamba.b", "mamba_layer.mamba.c",
                           "mamba_layer.mamba.dt", "mamba_layer.mamba.core"}) {
    INFO(name);
    CHECK(local_elements(split, name) * 2 == local_elements(whole, name));
  }
  for (const std::string name : {"conv.weight", "conv.bias", "a_log", "d", "dt_bias"}) {
    INFO(name);
    CHECK(local_elements(split, "mamba.core." + name) * 2 == local_elements(whole, "mamba.core." + name));
  }
  CHECK(executed_matmul_flops(split).value() == Approx(executed_matmul_flops(whole).value()));
}

TEST_CASE("a recurrence counts as often as its layers, three forward passes each") {
  const Job job = hybrid();
  const OpSpec& op = recurrence(job.workload.network);
  const auto& b = mamba_layer(job.workload.network);
  const std::int64_t samples = job.microbatches * job.strategy.microbatch,
                     tokens = job.workload.training.sequence_length;
  const double inner = static_cast<double>(elements(nth(b.tensors, op.outputs[0]).shape, 1, 1));
  const double state = static_cast<double>(nth(b.tensors, op.inputs[2]).shape[3].size);
  CHECK(forward_matmul_flops(b, op, samples, tokens, false).value() ==
        Approx(7.0 * static_cast<double>(samples * tokens) * inner * state));
  const Program p = job.lower();
  double executed = 0;
  for (const Entry& e : p.roles.front().step) {
    const Body& body = nth(p.bodies, e.body);
    for (const auto v : body.graph.vertices())
      if (const auto* c = std::get_if<ComputeTask>(&body.graph[v].kind);
          c != nullptr && (c->op == ComputeOp::state_space || c->op == ComputeOp::state_space_grad))
        executed += matmul_flops(p, *c, p.mesh.context(0)).value();
  }
  const auto layers = std::count(job.workload.network.pattern.begin(), job.workload.network.pattern.end(),
                                 job.workload.network.pattern.front());
  CHECK(executed ==
        Approx(static_cast<double>(3 * layers) * forward_matmul_flops(b, op, samples, tokens, false).value()));
}

TEST_CASE("what a recurrence cannot be split by is refused with what can") {
  Job over_tokens = hybrid();
  over_tokens.strategy.cp = 2;
  CHECK_THAT(refusal_state_space(over_tokens), Catch::Matchers::ContainsSubstring("have no lowering over cp(2) ranks"));
  CHECK_THAT(refusal_state_space(hybrid(4)), Catch::Matchers::ContainsSubstring("does not divide"));
}
