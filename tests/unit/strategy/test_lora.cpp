// Low-rank adapters: what a step computes, keeps and sends where the model's own weights are frozen.

#include "core/base/index.hpp"
#include "core/model/adapters.hpp"

#include <map>
#include <set>

#include "core/config/settings/training.hpp"
#include "core/price/kernels/task_kernel.hpp"
#include "core/program/flops.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/program/lowered.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

constexpr double kLayers = 4, kLoraHidden = 64, kLoraKeys = 32, kFfn = 176, kVocabulary = 256, kLoraSequence = 32,
                 kRank = 4;

Job adapted(std::vector<std::string> targets, double rank = kRank) {
  Job job(with_adapters(tiny_llama(), {static_cast<std::int64_t>(rank), 8, std::move(targets)}),
          static_cast<std::int64_t>(kLoraSequence));
  job.workload.training.gradient_dtype = GradientDtype::fp32;
  return job;
}

const std::vector<std::string> kAll{"qkv", "proj", "fc1", "fc2"};

/// Elements of A and B beside a product of these sizes.
double adapter(double in, double out) { return kRank * (in + out); }

double adapters_of_all() {
  return kLayers * (adapter(kLoraHidden, kLoraHidden + 2 * kLoraKeys) + adapter(kLoraHidden, kLoraHidden) +
                    adapter(kLoraHidden, 2 * kFfn) + adapter(kFfn, kLoraHidden));
}

double elements_of(const Network& n, bool frozen) {
  double sum = 0;
  for (std::size_t b = 0; b < n.blocks.size(); ++b)
    for (const ParamSpec& p : n.blocks[b].params)
      if (p.frozen == frozen) sum += static_cast<double>(p.elements()) * n.repeat[b];
  return sum;
}

Job with_settings(const LoraSettings& lora, int tp = 1) {
  Job job(with_adapters(tiny_llama(), lora), static_cast<std::int64_t>(kLoraSequence));
  job.strategy.tp = tp;
  job.strategy.sequence_parallel = tp > 1;
  return job;
}

/// Of one rank, bytes.
double peak_activations(const Program& p) {
  return nth(peak_memory(p, Bytes{0}, Bytes{0}).front().by_category, MemoryCategory::activations).value();
}

std::string refusal_lora(Job job) {
  try {
    (void)job.lower();
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("adapters have r (in + out) weights each, and all else is frozen") {
  const Network n = adapted(kAll).workload.network;
  CHECK(elements_of(n, false) == adapters_of_all());
  CHECK(elements_of(n, true) == static_cast<double>(tiny_llama().parameter_count()));
  CHECK(elements_of(adapted({"qkv"}).workload.network, false) ==
        kLayers * adapter(kLoraHidden, kLoraHidden + 2 * kLoraKeys));
  CHECK(with_adapters(tiny_llama(), {}).parameter_count() == tiny_llama().parameter_count());
}

TEST_CASE("a step multiplies frozen weights twice and adapters three times for a token") {
  const Program p = adapted(kAll).lower();
  const double tokens = kLoraSequence * 4, weights = kLayers * (kLoraHidden * (kLoraHidden + 2 * kLoraKeys) +
                                                                kLoraHidden * kLoraHidden + 3 * kLoraHidden * kFfn) +
                                                     kLoraHidden * kVocabulary;
  const double attention = kLayers * 3 * 4 * kLoraSequence * kLoraHidden;
  CHECK(executed_matmul_flops(p).value() ==
        Approx(tokens * (2 * 2 * weights + 3 * 2 * adapters_of_all() + attention)).epsilon(1e-12));
  CHECK(executed_matmul_flops(p).value() == Approx(p.model_flops_per_step).epsilon(1e-12));
}

TEST_CASE("only adapters have gradients and optimizer state") {
  const Program p = adapted(kAll).lower();
  CHECK_NOTHROW(validate(p));
  const double trained = adapters_of_all(), frozen = static_cast<double>(tiny_llama().parameter_count());
  CHECK(persistent_bytes(p, 0, MemoryCategory::weights) == 2 * (trained + frozen));
  CHECK(persistent_bytes(p, 0, MemoryCategory::gradients) == 4 * trained);
  CHECK(persistent_bytes(p, 0, MemoryCategory::optimizer) == 12 * trained);  // Master copy and two moments.
}

TEST_CASE("replicas reduce the gradients of adapters alone") {
  Job job = adapted(kAll);
  job.strategy.dp = job.strategy.dp_replicate = 2;
  const Program p = job.lower();
  double reduced = 0;
  for_each_task(p, 0, [&](const Entry& e, const Body& body, const Task& task) {
    if (task.name == "gradients") reduced += collective_bytes(p, body, task, context_of(p, 0, e));
  });
  CHECK(reduced == 4 * adapters_of_all());
}

TEST_CASE("frozen products keep no input for a weight gradient") {
  Job trained(tiny_llama(), static_cast<std::int64_t>(kLoraSequence));
  // At the least the MLP's inner values, and what goes into it, of every layer but the one at work; B's inputs come on
  // top.
  const double tokens = kLoraSequence, saved = (kLayers - 1) * tokens * 2 * kFfn, added = kLayers * tokens * 2 * kRank;
  CHECK(peak_activations(adapted({"qkv"}).lower()) <= peak_activations(trained.lower()) - saved + added);
}

TEST_CASE(
    "adapters keep the type of activations beside products in fp8 or fp4, whose frozen weights are stored so alone") {
  const bool fp4 = GENERATE(false, true);
  const DType type = fp4 ? DType::fp4 : DType::fp8;
  Job job = adapted({"qkv"}, 16);
  job.workload.training.precision = fp4 ? Precision::fp4_mixed : Precision::fp8_mixed;
  job.workload.training.fp8 = {Fp8Recipe::tensorwise, true};
  const Program p = job.lower();
  int narrow = 0, wide = 0;
  for_each_task(p, 0, [&](const Entry&, const Body&, const Task& task) {
    CHECK(task.name.find(".weight.cast") == std::string::npos);
    const auto* c = std::get_if<ComputeTask>(&task.kind);
    if (c == nullptr || c->op != ComputeOp::matmul) return;
    if (task.name.find(".lora_") != std::string::npos) {
      CHECK(c->arithmetic == DType::bf16);
      ++wide;
    } else if (c->arithmetic == type) {
      CHECK(task.phase != Phase::weight_grad);
      ++narrow;
    }
  });
  CHECK((narrow > 0 && wide > 0));
  const double products =
      kLayers * (kLoraHidden * (kLoraHidden + 2 * kLoraKeys) + kLoraHidden * kLoraHidden + 3 * kLoraHidden * kFfn);
  const double whole = static_cast<double>(tiny_llama().parameter_count()) - products,
               adapters = kLayers * 16 * (kLoraHidden + kLoraHidden + 2 * kLoraKeys);
  CHECK(persistent_bytes(p, 0, MemoryCategory::weights) == products * size_of(type) + 2 * (whole + adapters));
}

TEST_CASE("weights that are trained are not stored in fp4") {
  Job job(tiny_llama(), static_cast<std::int64_t>(kLoraSequence));
  job.workload.training.precision = Precision::fp4_mixed;
  job.workload.training.fp8.parameters = true;
  CHECK(refusal_lora(job) == "fp8.parameters in fp4_mixed has a lowering for frozen weights only");
}

TEST_CASE("tensor-parallel ranks gather and reduce what has the rank's features only") {
  Job job = adapted(kAll);
  job.strategy.tp = 2;
  job.strategy.sequence_parallel = true;
  const Program p = job.lower();
  for_each_task(p, 0, [&](const Entry& e, const Body& body, const Task& task) {
    if (!std::holds_alternative<CollectiveTask>(task.kind) || task.name.find(".lora_") == std::string::npos) return;
    INFO(task.name);
    CHECK(collective_bytes(p, body, task, context_of(p, 0, e)) <= kLoraSequence * kRank * 2);
  });
  CHECK_NOTHROW(validate(p));
}

TEST_CASE("dropout before an adapter keeps a byte for each element of its input, and changes no product") {
  const Program without = with_settings({4, 8, {"qkv"}, 0}).lower(), with = with_settings({4, 8, {"qkv"}, 0.1}).lower();
  // Masks of every layer but the one at work, at the least.
  CHECK(peak_activations(with) - peak_activations(without) >= (kLayers - 1) * kLoraSequence * kLoraHidden);
  CHECK(executed_matmul_flops(with).value() == executed_matmul_flops(without).value());
  int forward = 0, backward = 0;
  for_each_task(with, 0, [&](const Entry&, const Body&, const Task& task) {
    const auto* c = std::get_if<ComputeTask>(&task.kind);
    if (c == nullptr) return;
    forward += c->op == ComputeOp::dropout && c->probability == 0.1;
    backward += c->op == ComputeOp::dropout_grad && c->probability == 0.1;
  });
  CHECK(forward > 0);
  CHECK(backward == forward);
}

TEST_CASE("second products split by outputs exchange all features of a rank's tokens") {
  const Program whole = with_settings({4, 8, {"proj"}, 0, false}, 2).lower(),
                split = with_settings({4, 8, {"proj"}, 0, true}, 2).lower();
  CHECK_NOTHROW(validate(split));
  const auto weights = [](const Program& p) { return persistent_bytes(p, 0, MemoryCategory::weights); };
  CHECK(weights(whole) - weights(split) == kLayers * 2 * kRank * kLoraHidden / 2);  // Half of each B, in bf16.
  const auto exchanges = [](const Program& p) {
    std::map<Phase, int> out;
    for_each_task(p, 0, [&](const Entry& e, const Body& body, const Task& task) {
      const auto* c = std::get_if<CollectiveTask>(&task.kind);
      if (c == nullptr || c->op != CollectiveOp::all_to_all) return;
      CHECK(collective_bytes(p, body, task, context_of(p, 0, e)) == kLoraSequence * kLoraHidden * 2 / 2);
      ++out[task.phase];
    });
    return out;
  };
  CHECK(exchanges(whole).empty());
  CHECK(exchanges(split).size() == 2);  // Forward and backward.
}

TEST_CASE("an adapter's scale and sum are two kernels, or part of its products") {
  const auto launches = [](bool fused, int tp) {
    Job job = with_settings({4, 8, {"qkv"}}, tp);
    job.workload.kernels.fused_adapters = fused;
    const Program p = job.lower();
    std::map<ComputeOp, std::set<std::pair<int, int>>> out;  // Calls of the framework, launches.
    for_each_task(p, 0, [&](const Entry& e, const Body& body, const Task& task) {
      const auto* c = std::get_if<ComputeTask>(&task.kind);
      if (c != nullptr && task.name.find(".lora_add") != std::string::npos)
        out[c->op].insert({c->kernels, kernel_of(p, task, body, *c, context_of(p, 0, e)).launches});
    });
    return out;
  };
  using Found = std::map<ComputeOp, std::set<std::pair<int, int>>>;
  CHECK(launches(false, 1) == Found{{ComputeOp::add, {{2, 2}}}, {ComputeOp::scale, {{1, 1}}}});
  CHECK(launches(true, 1) == Found{{ComputeOp::add, {{0, 1}}}, {ComputeOp::scale, {{1, 0}}}});
  CHECK(launches(true, 2) == launches(false, 2));  // Transformer Engine does not fuse them there.
  CHECK(launches(false, 2) == launches(false, 1));
}

TEST_CASE("fully sharded units gather frozen weights and adapters, and scatter gradients of adapters alone") {
  Job job = adapted(kAll);
  job.workload.training.precision = Precision::bf16_mixed;
  job.strategy.dp = job.strategy.dp_shard = 2;
  job.strategy.fsdp.enabled = true;
  const Program p = job.lower();
  validate(p);
  double gathered = 0, scattered = 0;
  for (const Entry& e : p.roles.front().step) {
    const Body& body = nth(p.bodies, e.body);
    for (const auto v : body.graph.vertices()) {
      const auto* c = std::get_if<CollectiveTask>(&body.graph[v].kind);
      if (c == nullptr || (c->op != CollectiveOp::all_gather && c->op != CollectiveOp::reduce_scatter)) continue;
      for (const Operand& o : body.graph[v].operands) {
        const Tensor& t = nth(p.tensors, nth(body.formals, o.formal).like);
        const double elements = static_cast<double>(p.local_elements(t, p.mesh.context(0)));
        if (c->op == CollectiveOp::all_gather && o.access == Access::write) gathered += elements;
        if (c->op == CollectiveOp::reduce_scatter && o.access != Access::write) scattered += elements;
      }
    }
  }
  // In every microbatch layers are gathered for forward and again for backward, what stands outside them once.
  gathered /= p.microbatches;
  scattered /= p.microbatches;
  const double outside = 2 * kVocabulary * kLoraHidden + kLoraHidden, frozen = elements_of(job.workload.network, true);
  CHECK(gathered == 2 * (frozen - outside + adapters_of_all()) + outside);
  CHECK(scattered == adapters_of_all());
  // A rank keeps half of the frozen weights in 16 bits, and of each adapter half of master copy, moments and gradient.
  const auto held = peak_memory(p, Bytes{0}, Bytes{0}).front().by_category;
  CHECK(nth(held, MemoryCategory::weights).value() == frozen / 2 * 2);
  CHECK(nth(held, MemoryCategory::optimizer).value() == adapters_of_all() / 2 * 12);
}

TEST_CASE("adapters are refused where frozen weights have no lowering") {
  Job job = adapted(kAll);
  job.strategy.dp = job.strategy.dp_shard = 2;
  job.strategy.zero_stage = 3;
  CHECK(refusal_lora(job) == "zero_stage(3) has no lowering for weights that are frozen (training.lora)");
  job.strategy.zero_stage = 2;
  CHECK(refusal_lora(job) == "zero_stage(2) has no lowering for weights that are frozen (training.lora)");
  CHECK_THROWS_AS(with_adapters(shipped("tiny_mixtral"), {4, 8, kAll}), Error);
  CHECK_THROWS_AS(with_adapters(shipped("tiny_llama"), {4, 8, {}}), Error);
}
