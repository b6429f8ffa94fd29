// Heads that work on masked positions alone (training.predicted_positions).

#include <map>

#include "core/base/index.hpp"
#include "core/model/encoder.hpp"
#include "core/model/op_table.hpp"
#include "core/program/body.hpp"
#include "core/program/validate/validate.hpp"
#include "core/strategy/execution_gaps.hpp"
#include "core/strategy/no_lowering.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/strategy/saved.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

constexpr std::int64_t kLength = 32, kPredicted = 5, kSequences = 2;

/// One microbatch of two sequences of 32 tokens, of which the head predicts `count`.
Job encoder_job(std::int64_t count) {
  Job job(shipped("tiny_bert"));
  job.microbatches = 1;
  job.strategy.microbatch = kSequences;
  TrainingSettings& t = job.workload.training;
  t.sequence_length = kLength;
  t.declared.set("training.predicted_positions", count);
  job.workload.network = with_predicted_positions(std::move(job.workload.network), t);
  return job;
}

const Dim& hidden_of(const Network& n) { return n.blocks.back().tensors[n.blocks.back().input].shape.back(); }

/// FLOPs of the head's products that take rows of `network`, of one token, forward.
double head_flops(const Network& network) {
  double out = 0;
  for (const ParamSpec& p : network.blocks.back().params)
    if (p.shape.size() == 2) out += 2 * static_cast<double>(p.elements());
  return out;
}

/// Rows that each product of the head's bodies works on, by variant.
std::map<std::string, std::int64_t> rows_of_products(const Program& p) {
  std::map<std::string, std::int64_t> out;
  for_each_task(p, 0, [&](const Entry& e, const Body& body, const Task& task) {
    const auto* c = std::get_if<ComputeTask>(&task.kind);
    if (c == nullptr || c->op != ComputeOp::matmul || !body.name.starts_with("head.")) return;
    const std::size_t rows = c->transpose_a ? 3 : 1;
    out[c->variant] = p.exprs.evaluate(nth(c->dims, rows), context_of(p, 0, e));
  });
  return out;
}

}  // namespace

TEST_CASE("a head on n of s positions multiplies n rows of a sequence, forward and backward") {
  const auto all = rows_of_products(encoder_job(0).lower()), some = rows_of_products(encoder_job(kPredicted).lower());
  REQUIRE(all.size() == 3);
  for (const auto& [variant, rows] : all) {
    INFO(variant);
    CHECK(rows == kSequences * kLength);
    CHECK(some.at(variant) == kSequences * kPredicted);
  }
}

TEST_CASE("FLOPs count the positions that are predicted, and parameters are the same") {
  const Network all = encoder_job(0).workload.network, some = encoder_job(kPredicted).workload.network;
  CHECK(all.parameter_count() == some.parameter_count());
  const double less = 3 * static_cast<double>(kSequences * (kLength - kPredicted)) * head_flops(all);
  CHECK(model_flops(all, kSequences, kLength).value() - model_flops(some, kSequences, kLength).value() == less);
  CHECK(hidden_of(some).size == hidden_of(all).size);
}

TEST_CASE("logits of positions that nobody predicts are not stored") {
  const Program all = encoder_job(0).lower(), some = encoder_job(kPredicted).lower();
  CHECK_NOTHROW(validate(some));
  CHECK(peak_of_stage(some, 0) < peak_of_stage(all, 0));
}

TEST_CASE("predicted positions compose with every axis but context parallelism") {
  for (const bool sliced : {false, true}) {
    Job job = encoder_job(kPredicted);
    job.strategy.tp = 2;
    job.strategy.dp = 2;
    job.strategy.sequence_parallel = sliced;
    CHECK_NOTHROW(validate(job.lower()));
  }
  Job job = encoder_job(kPredicted);
  job.strategy.cp = 2;
  CHECK_THROWS_AS(job.lower(), NoLowering);
}

TEST_CASE("a position count changes nothing where all are predicted") {
  for (const std::int64_t count : {std::int64_t{0}, kLength, 2 * kLength})
    CHECK(encoder_job(count).workload.network.blocks.back().ops.size() ==
          encoder_job(0).workload.network.blocks.back().ops.size());
  Job causal(tiny_gpt());
  causal.workload.training.declared.set("training.predicted_positions", kPredicted);
  CHECK_FALSE(encodes(causal.workload.network));
  CHECK_FALSE(predicts_some(causal.workload.network, causal.workload.training));
}

TEST_CASE("what is gathered has the features that it is gathered from") {
  Network network = encoder_job(kPredicted).workload.network;
  BlockSpec& head = network.blocks.back();
  CHECK(head.ops.front().name == "gather");
  CHECK(op_info(head.ops.front().kind).wrong(head, head.ops.front()).empty());
  head.tensors[static_cast<std::size_t>(head.ops.front().outputs[0])].shape.back().size += 1;
  CHECK_FALSE(op_info(head.ops.front().kind).wrong(head, head.ops.front()).empty());
}
