// Products in fp8: which they are, what is cast and kept, what crosses wires.

#include <set>

#include "core/base/index.hpp"
#include "core/config/settings/choices.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/program/body.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/strategy/saved.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

Job llama(Precision precision = Precision::fp8_mixed) {
  Job job(changed("tiny_llama", {{"num_hidden_layers", 2},
                                 {"hidden_size", 64},
                                 {"num_attention_heads", 4},
                                 {"num_key_value_heads", 2},
                                 {"intermediate_size", 96},
                                 {"vocab_size", 128}}));
  job.workload.training.precision = precision;
  return job;
}

constexpr double kPrecisionLayerWeights = 64 * (64 + 2 * 32) + 64 * 64 + 3 * 64 * 96;  // q, k, v; out; gate, up, down.

DType operand_type(const Program& p, const Body& body, const Operand& o) {
  return nth(p.tensors, nth(body.formals, o.formal).like).dtype;
}

/// Bytes of tensor-parallel collectives that rank 0 takes part in.
double tensor_parallel_bytes(const Program& p) {
  double bytes = 0;
  for_each_task(p, 0, [&](const Entry& e, const Body& body, const Task& task) {
    if (std::holds_alternative<CollectiveTask>(task.kind) && task.stream == p.stream_along(Axis::tp))
      bytes += collective_bytes(p, body, task, context_of(p, 0, e));
  });
  return bytes;
}

}  // namespace

TEST_CASE("the products of linear layers run in fp8, attention, head and router do not") {
  const Program p = llama().lower();
  std::set<std::string> in_fp8, in_bf16;
  for_each_task(p, 0, [&](const Entry&, const Body& body, const Task& task) {
    const auto* c = std::get_if<ComputeTask>(&task.kind);
    if (c == nullptr ||
        (c->op != ComputeOp::matmul && c->op != ComputeOp::attention && c->op != ComputeOp::attention_grad))
      return;
    (c->arithmetic == DType::fp8 ? in_fp8 : in_bf16).insert(task.name);
    for (const Operand& o : task.operands)
      if (o.access == Access::read && c->op == ComputeOp::matmul)
        CHECK((operand_type(p, body, o) == DType::fp8) == (c->arithmetic == DType::fp8));
  });
  for (const char* layer : {"attention.qkv", "attention.proj", "mlp.gate_up", "mlp.down"})
    for (const char* product : {"", ".input_grad", ".weight_grad"})
      CHECK(in_fp8.count(std::string(layer) + product) == 1);
  CHECK(in_fp8.size() == 12);
  CHECK(in_bf16.count("attention.core") == 1);
  CHECK(in_bf16.count("logits") == 1);
}

TEST_CASE(
    "in fp4_mixed the same products run in fp4, on half a byte an element, and each cast looks for the largest value "
    "first") {
  const auto names = [](const Program& p, DType type) {
    std::set<std::string> out;
    for_each_task(p, 0, [&](const Entry&, const Body& body, const Task& task) {
      const auto* c = std::get_if<ComputeTask>(&task.kind);
      if (c == nullptr || c->op != ComputeOp::matmul || c->arithmetic != type) return;
      out.insert(task.name);
      for (const Operand& o : task.operands)
        if (o.access == Access::read) CHECK(operand_type(p, body, o) == type);
    });
    return out;
  };
  const Program p = llama(Precision::fp4_mixed).lower();
  validate(p);
  CHECK(names(p, DType::fp4) == names(llama().lower(), DType::fp8));
  CHECK(names(p, DType::fp8).empty());
  int looks = 0, casts = 0;
  for_each_task(p, 0, [&](const Entry&, const Body&, const Task& task) {
    const auto* c = std::get_if<ComputeTask>(&task.kind);
    if (c == nullptr || c->op != ComputeOp::quantise) return;
    ++(c->variant == "amax" ? looks : casts);
    CHECK(c->passes == 1);
    CHECK((c->variant == "amax" || c->variant == "nvfp4"));  // Not one of fp8, which devices would run.
  });
  CHECK(looks == casts);
  CHECK(casts > 0);
}

TEST_CASE("without rotation norms and activations find the largest value of what fp4 casts") {
  const auto found_on_the_way = [](bool rotation) {
    Job job = llama(Precision::fp4_mixed);
    job.workload.training.fp8.rotation = rotation;
    std::set<std::string> out;
    for_each_task(job.lower(), 0, [&](const Entry&, const Body&, const Task& task) {
      if (const auto* c = std::get_if<ComputeTask>(&task.kind); c != nullptr && c->variant == "amax" && c->passes == 0)
        out.insert(task.name);
    });
    return out;
  };
  CHECK(found_on_the_way(true).empty());
  CHECK(found_on_the_way(false) == std::set<std::string>{"attention.qkv.input.cast.amax", "mlp.down.input.cast.amax",
                                                         "mlp.gate_up.input.cast.amax",
                                                         "mlp.gate_up.output_grad.cast.amax"});
}

TEST_CASE("products whose sizes tensor cores do not take in fp8 stay in bf16") {
  Job job(changed("tiny_llama", {{"num_hidden_layers", 1},
                                 {"hidden_size", 64},
                                 {"num_attention_heads", 4},
                                 {"num_key_value_heads", 4},
                                 {"intermediate_size", 88},
                                 {"vocab_size", 128}}));
  job.workload.training.precision = Precision::fp8_mixed;
  const Program p = job.lower();
  for_each_task(p, 0, [&](const Entry&, const Body&, const Task& task) {
    const auto* c = std::get_if<ComputeTask>(&task.kind);
    // 88 is no multiple of 16.
    if (c != nullptr && c->op == ComputeOp::matmul && task.name.rfind("mlp.down", 0) == 0)
      CHECK(c->arithmetic == DType::bf16);
    if (c != nullptr && task.name == "attention.qkv") CHECK(c->arithmetic == DType::fp8);
  });
}

TEST_CASE("inputs of products are kept in one byte in place of two") {
  const double sbh = 32 * 64;
  // Two norms' results and the MLP's inner values become fp8; attention's output is kept for attention as well.
  const double less = 2 * sbh + 32 * 96, more = sbh;
  CHECK(kept_bytes(llama(Precision::bf16_mixed).lower(), "layer.forward") -
            kept_bytes(llama().lower(), "layer.forward") ==
        Approx(less - more));
}

TEST_CASE("weights: two fp8 copies beside the bf16 ones, or fp8 alone") {
  const auto weights = [](Job job) { return persistent_bytes(job.lower(), 0, MemoryCategory::weights); };
  const double plain = weights(llama(Precision::bf16_mixed));
  CHECK(weights(llama()) - plain == Approx(2 * 2 * kPrecisionLayerWeights));
  Job stored = llama();
  stored.workload.training.fp8.parameters = true;
  CHECK(plain - weights(stored) == Approx(2 * kPrecisionLayerWeights));
}

TEST_CASE("weights are cast once a step, inputs and gradients every microbatch") {
  const Program p = llama().lower();
  std::map<std::string, int> casts;
  for_each_task(p, 0, [&](const Entry&, const Body&, const Task& task) {
    if (const auto* c = std::get_if<ComputeTask>(&task.kind); c != nullptr && c->op == ComputeOp::quantise)
      ++casts[task.name];
  });
  CHECK(casts.at("mlp.down.weight.cast") == 2);
  CHECK(casts.at("mlp.down.input.cast") == 2 * p.microbatches);
  CHECK(casts.at("mlp.down.output_grad.cast") == 2 * p.microbatches);
  CHECK(casts.at("fp8_scales") == 1);
  Job current = llama();
  current.workload.training.fp8.recipe = Fp8Recipe::tensorwise;
  int looks = 0;
  for_each_task(current.lower(), 0,
                [&](const Entry&, const Body&, const Task& task) { looks += task.name == "mlp.down.input.cast.amax"; });
  CHECK(looks == 2 * p.microbatches);  // A scale of the tensor's own takes a pass to find.
}

TEST_CASE("with fused casts norms and activations write fp8 themselves, but for a scale of the tensor's own") {
  const auto moving = [](Precision precision, Fp8Recipe recipe, bool fused) {
    Job job = llama(precision);
    job.workload.training.fp8.recipe = recipe;
    job.workload.kernels.fused_casts = fused;
    std::set<std::string> out;
    for_each_task(job.lower(), 0, [&](const Entry&, const Body&, const Task& task) {
      const auto* c = std::get_if<ComputeTask>(&task.kind);
      if (c != nullptr && c->op == ComputeOp::quantise && c->passes > 0) out.insert(task.name);
    });
    return out;
  };
  for (const Fp8Recipe recipe : {Fp8Recipe::delayed, Fp8Recipe::blockwise, Fp8Recipe::mxfp8}) {
    std::set<std::string> apart = moving(Precision::fp8_mixed, recipe, false);
    for (const char* name :
         {"attention.qkv.input.cast", "mlp.gate_up.input.cast", "mlp.down.input.cast", "mlp.gate_up.output_grad.cast"})
      CHECK(apart.erase(name) == 1);
    CHECK(moving(Precision::fp8_mixed, recipe, true) == apart);
    CHECK(apart.count("attention.proj.input.cast") == 1);
    CHECK(apart.count("mlp.gate_up.weight.cast") == 1);
  }
  CHECK(moving(Precision::fp8_mixed, Fp8Recipe::tensorwise, true) ==
        moving(Precision::fp8_mixed, Fp8Recipe::tensorwise, false));
  CHECK(moving(Precision::fp4_mixed, Fp8Recipe::delayed, true) ==
        moving(Precision::fp4_mixed, Fp8Recipe::delayed, false));
}

TEST_CASE("sequence parallelism gathers fp8: half the bytes before column-parallel products") {
  Job job = llama();
  job.strategy.tp = 2;
  job.strategy.sequence_parallel = true;
  const double fp8 = tensor_parallel_bytes(job.lower());
  job.workload.training.precision = Precision::bf16_mixed;
  const double bf16 = tensor_parallel_bytes(job.lower());
  // Gathers of a layer, of 2 sbh each: two inputs forward, the same again and two gradients backward. Each loses half.
  const double sbh = 32 * 64;
  CHECK(bf16 - fp8 == Approx(job.microbatches * 2 * 6 * sbh));
}

TEST_CASE("where samples come first, sequences of several are put in order and gathered fp8 operands turned") {
  struct Count {
    int moved = 0, reordered = 0, turned = 0;
  };
  const auto count = [](Precision precision, int microbatch, bool samples_first) {
    Job job = llama(precision);
    job.strategy.tp = job.strategy.dp = job.strategy.dp_shard = 2;
    job.strategy.fsdp.enabled = job.strategy.sequence_parallel = true;
    job.strategy.microbatch = microbatch;
    job.microbatches = 1;
    job.workload.kernels.samples_first = samples_first;
    const Program p = job.lower();
    validate(p);
    Count c;
    for_each_task(p, 0, [&](const Entry&, const Body&, const Task& task) {
      const auto* collective = std::get_if<CollectiveTask>(&task.kind);
      const bool moves = collective != nullptr && task.stream == p.stream_along(Axis::tp) &&
                         collective->op != CollectiveOp::all_reduce;
      c.moved += moves ? 1 : 0;
      c.reordered += task.name.ends_with(".reorder") ? 1 : 0;
      c.turned += task.name.ends_with(".turn") ? 1 : 0;
    });
    return c;
  };
  for (const Precision precision : {Precision::bf16_mixed, Precision::fp8_mixed}) {
    const Count plain = count(precision, 2, false), one = count(precision, 1, true), two = count(precision, 2, true);
    CHECK(plain.reordered + plain.turned == 0);  // FSDP with tensor parallelism alone says nothing about layouts.
    CHECK(one.reordered == 0);
    CHECK(two.moved == plain.moved);
    CHECK(two.reordered == two.moved);
    // Of each of two layers: inputs of two products, gathered again, and gradients of two.
    CHECK(two.turned == (precision == Precision::fp8_mixed ? 2 * 4 : 0));
    CHECK(one.turned == two.turned);
  }
}

namespace {

/// Layers of apart projections, as PyTorch's models have them, on two tensor-parallel ranks.
Job apart(Precision precision, Fp8Recipe recipe, bool samples_first) {
  Job job(changed("tiny_llama", {{"num_hidden_layers", 2},
                                 {"hidden_size", 64},
                                 {"num_attention_heads", 4},
                                 {"num_key_value_heads", 2},
                                 {"intermediate_size", 96},
                                 {"vocab_size", 128},
                                 {"merged_projections", false}}));
  job.workload.training.precision = precision;
  job.workload.training.fp8.recipe = recipe;
  job.workload.kernels.samples_first = samples_first;
  job.strategy.tp = 2;
  job.strategy.sequence_parallel = true;
  job.microbatches = 1;
  return job;
}

/// Tasks of rank 0 whose names end so.
int count(const Program& p, const char* suffix) {
  int out = 0;
  for_each_task(p, 0, [&](const Entry&, const Body&, const Task& task) { out += task.name.ends_with(suffix) ? 1 : 0; });
  return out;
}

}  // namespace

TEST_CASE("PyTorch casts what several products read once; elsewhere each product casts its own") {
  // Of each of two layers: q, k, v share an input, gate and up another; out and down have one each.
  CHECK(count(apart(Precision::fp8_mixed, Fp8Recipe::tensorwise, true).lower(), ".input.cast") == 2 * 4);
  CHECK(count(apart(Precision::fp8_mixed, Fp8Recipe::tensorwise, false).lower(), ".input.cast") == 2 * 7);
}

TEST_CASE("PyTorch adds the gradients of products that read one value before it reduces them") {
  // Scatters of each of two layers: sums of out and down forward, gradients of their two inputs backward, or one for
  // each of five products.
  const auto scatters = [](bool samples_first) {
    return count(apart(Precision::bf16_mixed, Fp8Recipe::tensorwise, samples_first).lower(), ".reduce_scatter");
  };
  CHECK(scatters(false) - scatters(true) == 2 * (5 - 2));
}

TEST_CASE(
    "products that gather by themselves gather and scatter five times where one gather serves each half of a layer") {
  const auto calls = [](bool samples_first, bool per_product, const char* what) {
    Job job = apart(Precision::bf16_mixed, Fp8Recipe::tensorwise, samples_first);
    job.workload.kernels.gather_per_product = per_product;
    return count(job.lower(), what);
  };
  for (const bool samples_first : {false, true}) {
    // Two layers: five column-parallel products instead of two inputs, forward and for the weight gradients.
    CHECK(calls(samples_first, true, ".all_gather") - calls(samples_first, false, ".all_gather") == 2 * 2 * (5 - 2));
    CHECK(calls(samples_first, true, ".reduce_scatter") - calls(true, false, ".reduce_scatter") == 2 * (5 - 2));
  }
}

TEST_CASE("scales of a whole tensor are agreed on by tensor-parallel ranks before each cast") {
  const Program p = apart(Precision::fp8_mixed, Fp8Recipe::tensorwise, true).lower();
  CHECK(count(p, ".amax.all_reduce") == count(p, ".amax"));
  CHECK(count(p, ".amax") > 0);
}

TEST_CASE("scales of rows: PyTorch gathers in bf16 and casts what arrived") {
  const double bf16 = tensor_parallel_bytes(apart(Precision::bf16_mixed, Fp8Recipe::rowwise, true).lower());
  CHECK(tensor_parallel_bytes(apart(Precision::fp8_mixed, Fp8Recipe::rowwise, true).lower()) == Approx(bf16));
  CHECK(tensor_parallel_bytes(apart(Precision::fp8_mixed, Fp8Recipe::tensorwise, true).lower()) < bf16);
}

TEST_CASE("FSDP gathers weights in bf16, or in fp8 where they are stored so") {
  const auto gathered = [](bool parameters) {
    Job job = llama();
    job.strategy.fsdp.enabled = true;
    job.strategy.dp = job.strategy.dp_shard = 2;
    job.microbatches = 1;
    job.workload.training.fp8.parameters = parameters;
    double bytes = 0;
    const Program p = job.lower();
    for_each_task(p, 0, [&](const Entry& e, const Body& body, const Task& task) {
      const auto* c = std::get_if<CollectiveTask>(&task.kind);
      if (c != nullptr && c->op == CollectiveOp::all_gather)
        bytes += collective_bytes(p, body, task, context_of(p, 0, e));
    });
    return bytes;
  };
  // Two layers, gathered forward and backward.
  CHECK(gathered(false) - gathered(true) == Approx(2 * 2 * kPrecisionLayerWeights));
}

TEST_CASE("fp8 needs replicas that keep their scales") {
  Job job = llama();
  job.strategy.dp = 2;
  job.strategy.data_parallel = DataParallelism::funnel;
  CHECK_THROWS_AS(job.lower(), Error);
}
