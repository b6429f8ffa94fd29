// What products do beside multiplying: GELU and sums of biases' gradients in their epilogues.

#include <map>

#include "core/base/index.hpp"
#include "core/program/body.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/strategy/saved.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

/// Passes over their operands that tasks of `op` make, added up, by the variant of the task.
std::map<std::string, double> passes_of(const Program& p, ComputeOp op) {
  std::map<std::string, double> out;
  for_each_task(p, 0, [&](const Entry&, const Body&, const Task& task) {
    const auto* c = std::get_if<ComputeTask>(&task.kind);
    if (c != nullptr && c->op == op) out[c->variant] += c->passes;
  });
  return out;
}

Job with(const std::string& key) {
  Job job(shipped("tiny_bert"));
  job.microbatches = 1;
  if (!key.empty()) job.workload.kernels.declared.set(key, true);
  return job;
}

}  // namespace

TEST_CASE("in a product's epilogue GELU writes its result and reads its operand, and no more") {
  const Program apart = with("").lower(), inside = with("framework.gelu_in_products").lower();
  // Of two operands forward one is left, of three backward one.
  CHECK(passes_of(inside, ComputeOp::activation).at("gelu") ==
        Approx(passes_of(apart, ComputeOp::activation).at("gelu") / 2));
  CHECK(passes_of(inside, ComputeOp::activation_grad).at("gelu") ==
        Approx(passes_of(apart, ComputeOp::activation_grad).at("gelu") / 3));
}

TEST_CASE("a product of a weight's gradient that sums the bias's leaves nothing to a kernel of its own") {
  CHECK(passes_of(with("").lower(), ComputeOp::add).at("column_sum") > 0);
  CHECK(passes_of(with("framework.bias_gradients_in_products").lower(), ComputeOp::add).at("column_sum") == 0);
}
