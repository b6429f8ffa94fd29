// The output product and the loss as one (framework.linear_loss): what is multiplied how often, and what is stored.

#include <map>
#include <set>

#include "core/base/index.hpp"
#include "core/config/settings/choices.hpp"
#include "core/program/body.hpp"
#include "core/program/validate/validate.hpp"
#include "core/strategy/operators/linear_loss.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/strategy/saved.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

constexpr double kHeadTokens = 2 * 32, kHeadHidden = 64, kHeadWords = 1024, kHeadLogits = 2 * kHeadTokens * kHeadWords;

/// One microbatch of 64 tokens, whose logits are by far the largest tensor.
Job joined_head(const std::string& kept, std::int64_t chunks = 0) {
  Job job(changed("tiny_llama", {{"num_hidden_layers", 1},
                                 {"hidden_size", kHeadHidden},
                                 {"num_attention_heads", 4},
                                 {"num_key_value_heads", 2},
                                 {"intermediate_size", 96},
                                 {"tie_word_embeddings", false},
                                 {"vocab_size", kHeadWords}}));
  job.microbatches = 1;
  job.strategy.microbatch = 2;
  job.workload.training.precision = Precision::bf16_mixed;
  job.workload.kernels.fused_cross_entropy = true;
  job.workload.kernels.declared.set("framework.linear_loss", kept);
  job.workload.kernels.declared.set("framework.loss_chunks", chunks);
  return job;
}

struct HeadProducts {
  int number = 0;
  double flops = 0;
};

/// Those of the head, by kind: "linear", "linear_input_grad", "linear_weight_grad", and "again".
std::map<std::string, HeadProducts> head_products(const Program& p) {
  std::map<std::string, HeadProducts> out;
  for_each_task(p, 0, [&](const Entry& e, const Body& body, const Task& task) {
    const auto* c = std::get_if<ComputeTask>(&task.kind);
    if (c == nullptr || c->op != ComputeOp::matmul || !body.name.starts_with("head.")) return;
    double flops = 2;
    for (const ExprId d : c->dims) flops *= static_cast<double>(p.exprs.evaluate(d, context_of(p, 0, e)));
    HeadProducts& kind = out[task.phase == Phase::recompute ? "again" : c->variant];
    ++kind.number;
    kind.flops += flops;
  });
  return out;
}

double head_peak(const Job& job) { return peak_of_stage(job.lower(), 0).value(); }

}  // namespace

TEST_CASE("on the chip, logits are made twice and stored never") {
  const Job stored = joined_head("stored"), on_chip = joined_head("on_chip");
  const double one = 2 * kHeadTokens * kHeadHidden * kHeadWords;
  const auto once = head_products(stored.lower());
  CHECK(once.count("again") == 0);
  CHECK(once.at("linear").flops == one);
  const auto twice = head_products(on_chip.lower());
  for (const char* kind : {"linear", "linear_input_grad", "linear_weight_grad", "again"}) {
    CHECK(twice.at(kind).number == 1);
    CHECK(twice.at(kind).flops == one);
  }
  // Logits and their gradient, 16 bits each, are what the step of the stored loss holds at its peak beside the rest.
  CHECK(head_peak(stored) - head_peak(on_chip) > 1.5 * kHeadLogits);
}

TEST_CASE("what is gathered for a product that runs again is kept as it was gathered, and given back") {
  for (const char* kept : {"stored", "on_chip", "chunks"}) {
    INFO(kept);
    Job job = joined_head(kept);
    job.strategy.tp = 2;
    job.strategy.sequence_parallel = true;
    job.workload.kernels.declared.set("framework.keeps_gathered_inputs", true);
    job.microbatches = 4;
    const Program few = job.lower();
    job.microbatches = 12;
    const Program many = job.lower();
    CHECK_NOTHROW(validate(many));
    CHECK(peak_of_stage(many, 0) == peak_of_stage(few, 0));
  }
}

TEST_CASE("in chunks, every product of the head runs in forward, and none twice") {
  const Program p = joined_head("chunks", 4).lower();
  const auto all = head_products(p);
  const double one = 2 * kHeadTokens * kHeadHidden * kHeadWords;
  CHECK(all.count("again") == 0);
  for (const char* kind : {"linear", "linear_input_grad", "linear_weight_grad"}) {
    CHECK(all.at(kind).number == 4);
    CHECK(all.at(kind).flops == one);
  }
  for_each_task(p, 0, [&](const Entry&, const Body& body, const Task& task) {
    const auto* c = std::get_if<ComputeTask>(&task.kind);
    if (body.name == "head.backward" && c != nullptr) CHECK(c->op != ComputeOp::matmul);
  });
}

TEST_CASE("of logits in chunks one chunk is there at a time") {
  // Beside the weight's gradient, which is there from the first chunk on: logits of a chunk and their gradient.
  const double two = head_peak(joined_head("chunks", 2)), four = head_peak(joined_head("chunks", 4)),
               eight = head_peak(joined_head("chunks", 8));
  CHECK(two - four == Approx(2 * kHeadLogits * (1.0 / 2 - 1.0 / 4)).epsilon(0.05));
  CHECK(two - eight == Approx(2 * kHeadLogits * (1.0 / 2 - 1.0 / 8)).epsilon(0.05));
}

TEST_CASE("Liger's chunks have a power of two tokens, about the hidden size over the vocabulary of them") {
  // 1,024 words over 64 hidden values: 16 times as many, so that 64 tokens are taken 4 at a time.
  CHECK(head_products(joined_head("chunks").lower()).at("linear").number == 16);
  Job job = joined_head("chunks");
  job.strategy.microbatch = 3;  // 96 tokens over 16 are 6, of which the next power of two is 8: 4 chunks a sample.
  CHECK(head_products(job.lower()).at("linear").number == 12);
}

TEST_CASE("chunks that do not divide the tokens leave a smaller one") {
  const auto all = head_products(joined_head("chunks", 3).lower());  // 22 tokens at most: 22 and 10 of either sample.
  CHECK(all.at("linear").number == 4);
  CHECK(all.at("linear").flops == 2 * kHeadTokens * kHeadHidden * kHeadWords);
}

TEST_CASE("each module that predicts further takes its loss the same way") {
  Job job(shipped("tiny_deepseek"));
  job.workload.kernels.declared.set("framework.linear_loss", std::string("chunks"));
  job.workload.kernels.declared.set("framework.loss_chunks", std::int64_t{2});
  std::set<std::string> losses;
  for_each_task(job.lower(), 0, [&](const Entry&, const Body& body, const Task& task) {
    if (body.name != "head.forward") return;
    const auto* c = std::get_if<ComputeTask>(&task.kind);
    if (c != nullptr && c->op == ComputeOp::cross_entropy_grad) losses.insert(task.name);
  });
  CHECK(losses.size() == 2);
}

TEST_CASE("a loss on the chip is refused by back ends, and one in chunks is not") {
  CHECK_FALSE(linear_loss_gap(joined_head("on_chip").workload.kernels).empty());
  CHECK(linear_loss_gap(joined_head("chunks").workload.kernels).empty());
  CHECK(linear_loss_gap(joined_head("stored").workload.kernels).empty());
}
