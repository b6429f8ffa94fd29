// Fp8 as Blackwell has it: tensor cores that read either dimension, blocks with scales of their own, attention in fp8.

#include <map>

#include "core/base/index.hpp"
#include "core/cluster/make_cluster.hpp"
#include "core/config/settings/choices.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/hardware/catalogue.hpp"
#include "core/program/body.hpp"
#include "core/strategy/lower.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"
#include "tests/unit/strategy/saved.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

Job llama(Fp8Recipe recipe, Fp8Copies copies) {
  Job job(changed("tiny_llama", {{"num_hidden_layers", 2},
                                 {"hidden_size", 64},
                                 {"num_attention_heads", 4},
                                 {"num_key_value_heads", 2},
                                 {"intermediate_size", 96},
                                 {"vocab_size", 128}}));
  job.workload.training.precision = Precision::fp8_mixed;
  job.workload.training.fp8.recipe = recipe;
  job.workload.training.fp8.copies = copies;
  return job;
}

Job with_attention(Fp8Recipe recipe) {
  Job job = llama(recipe, Fp8Copies::one);
  job.workload.training.fp8.attention = true;
  return job;
}

constexpr double kFp8BlackwellLayerWeights =
    64 * (64 + 2 * 32) + 64 * 64 + 3 * 64 * 96;  // q, k, v; out; gate, up, down.

/// Copies in fp8 that casts of rank 0 write, over the tensors they read.
double copies_per_cast(const Program& p) {
  int copies = 0, tensors = 0;
  for_each_task(p, 0, [&](const Entry&, const Body& body, const Task& task) {
    const auto* c = std::get_if<ComputeTask>(&task.kind);
    if (c == nullptr || c->op != ComputeOp::quantise || c->variant == "amax") return;
    tensors += static_cast<int>(c->dims.size());
    for (const Operand& o : task.operands)
      copies +=
          o.access == Access::write && nth(p.tensors, nth(body.formals, o.formal).like).dtype == DType::fp8 ? 1 : 0;
  });
  return static_cast<double>(copies) / tensors;
}

/// The arithmetic of rank 0's tasks whose operation is `op`; all have the same.
DType arithmetic_of(const Program& p, ComputeOp op, const std::string& name = "") {
  std::optional<DType> out;
  for_each_task(p, 0, [&](const Entry&, const Body&, const Task& task) {
    const auto* c = std::get_if<ComputeTask>(&task.kind);
    if (c == nullptr || c->op != op || task.name.find(name) == std::string::npos) return;
    CHECK((!out || *out == c->arithmetic));
    out = c->arithmetic;
  });
  REQUIRE(out);
  return *out;
}

}  // namespace

TEST_CASE("a tensor with one scale is cast into one copy where tensor cores read either dimension") {
  for (const Fp8Recipe recipe : {Fp8Recipe::delayed, Fp8Recipe::tensorwise}) {
    const Program two = llama(recipe, Fp8Copies::two).lower(), one = llama(recipe, Fp8Copies::one).lower();
    validate(one);
    CHECK(copies_per_cast(two) == 2);
    CHECK(copies_per_cast(one) == 1);
    // A byte of each weight less, and as much kept for backward.
    CHECK(persistent_bytes(two, 0, MemoryCategory::weights) - persistent_bytes(one, 0, MemoryCategory::weights) ==
          Approx(2 * kFp8BlackwellLayerWeights));
    CHECK(kept_bytes(one, "layer.forward") == kept_bytes(two, "layer.forward"));
  }
  for (const Fp8Recipe recipe : {Fp8Recipe::blockwise, Fp8Recipe::mxfp8})  // Blocks lie along the inner dimension.
    CHECK(copies_per_cast(llama(recipe, Fp8Copies::one).lower()) == 2);
}

TEST_CASE("with tensor parallelism and sharded weights one copy serves too") {
  Job job = llama(Fp8Recipe::tensorwise, Fp8Copies::one);
  job.strategy.tp = job.strategy.dp = job.strategy.dp_shard = 2;
  job.strategy.fsdp.enabled = job.strategy.sequence_parallel = true;
  job.strategy.recompute = Recompute::full;
  const Program p = job.lower();
  validate(p);
  CHECK(copies_per_cast(p) == 1);
}

TEST_CASE("copies left to the machine follow its GPUs") {
  const Catalogue catalogue(rehearse::testing::source_path("topologies"));
  const auto copies = [&](std::vector<ClusterSpec::Part> parts, Fp8Copies stated = Fp8Copies::automatic) {
    const Cluster cluster = make_cluster(
        catalogue, {.id = {}, .name = {}, .parts = std::move(parts), .network = "single_switch", .sources = {}});
    return on_machines(llama(Fp8Recipe::tensorwise, stated).workload, cluster).training.fp8.copies;
  };
  CHECK(copies({{"dgx_h100", 1}}) == Fp8Copies::two);
  CHECK(copies({{"dgx_b200", 1}}) == Fp8Copies::one);
  CHECK(copies({{"dgx_b200", 1}, {"dgx_h100", 1}}) == Fp8Copies::two);
  CHECK(copies({{"dgx_b200", 1}}, Fp8Copies::two) == Fp8Copies::two);
}

TEST_CASE("products of blocks with scales are an arithmetic of their own") {
  CHECK(arithmetic_of(llama(Fp8Recipe::mxfp8, Fp8Copies::automatic).lower(), ComputeOp::matmul, "mlp.") ==
        DType::mxfp8);
  CHECK(arithmetic_of(llama(Fp8Recipe::tensorwise, Fp8Copies::automatic).lower(), ComputeOp::matmul, "mlp.") ==
        DType::fp8);
}

TEST_CASE("attention in fp8: what it reads is cast, in blocks where products are") {
  for (const auto& [recipe, arithmetic] :
       {std::pair{Fp8Recipe::mxfp8, DType::mxfp8}, std::pair{Fp8Recipe::tensorwise, DType::fp8},
        std::pair{Fp8Recipe::delayed, DType::fp8}}) {
    const Program p = with_attention(recipe).lower();
    validate(p);
    CHECK(arithmetic_of(p, ComputeOp::attention) == arithmetic);
    CHECK(arithmetic_of(p, ComputeOp::attention_grad) == arithmetic);
    int moving = 0, standing = 0;
    for_each_task(p, 0, [&](const Entry&, const Body&, const Task& task) {
      const auto* c = std::get_if<ComputeTask>(&task.kind);
      if (c != nullptr && c->op == ComputeOp::quantise && c->variant != "amax" &&
          task.name.starts_with("attention.core"))
        ++(c->passes > 0 ? moving : standing);
    });
    // Of each layer and microbatch: q, k, v and the output's gradient; backward reads what forward made.
    CHECK(moving == 2 * p.microbatches * 4);
    CHECK(standing == 2 * p.microbatches * 3);
  }
  CHECK(arithmetic_of(llama(Fp8Recipe::mxfp8, Fp8Copies::one).lower(), ComputeOp::attention) == DType::bf16);
}

TEST_CASE("attention in fp8 over context-parallel ranks: what travels is cast before, gradients are not") {
  for (const ContextExchange exchange : {ContextExchange::ring, ContextExchange::ulysses}) {
    const auto bytes_by_name = [&](bool fp8) {
      Job job = with_attention(Fp8Recipe::delayed);
      job.workload.training.fp8.attention = fp8;
      job.strategy.cp = 2;
      job.strategy.context = exchange;
      const Program p = job.lower();
      validate(p);
      std::map<std::string, double> out;
      for_each_task(p, 0, [&](const Entry&, const Body& body, const Task& task) {
        const auto* c = std::get_if<CollectiveTask>(&task.kind);
        if (c == nullptr || task.stream != p.stream_along(Axis::cp)) return;
        for (const Operand& o : task.operands)
          if (o.access == Access::read)
            out[task.name] += p.local_bytes(nth(p.tensors, nth(body.formals, o.formal).like), p.mesh.context(0));
      });
      return out;
    };
    const auto wide = bytes_by_name(false), narrow = bytes_by_name(true);
    CHECK(wide.size() == narrow.size());
    int halved = 0, kept = 0;
    for (const auto& [name, bytes] : wide) {
      INFO(name);
      const bool gradient = narrow.at(name) == Approx(bytes);
      CHECK((gradient || 2 * narrow.at(name) == Approx(bytes)));
      ++(gradient ? kept : halved);
    }
    CHECK(halved > 0);
    CHECK(kept > 0);
  }
}

TEST_CASE("attention in fp8 is refused where nothing lowers it") {
  Job split = with_attention(Fp8Recipe::tensorwise);
  split.strategy.cp = 2;
  split.strategy.context = ContextExchange::allgather;
  CHECK_THROWS_AS(split.lower(), Error);
  Job unfused = with_attention(Fp8Recipe::tensorwise);
  unfused.workload.kernels.attention = AttentionKernel::unfused;
  CHECK_THROWS_AS(unfused.lower(), Error);
}
