// State and traffic of update rules.

#include "core/config/settings/choices.hpp"
#include "core/program/body.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/program/lowered.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

Job job_with(Optimizer optimizer, Precision precision = Precision::bf16_mixed) {
  Job job(tiny_gpt());
  job.workload.training.optimizer = optimizer;
  job.workload.training.precision = precision;
  job.workload.training.gradient_dtype = GradientDtype::model;
  return job;
}

double parameters_optimizers(const Job& job) { return static_cast<double>(job.workload.network.parameter_count()); }

double state_bytes(const Job& job) { return persistent_bytes(job.lower(), 0, MemoryCategory::optimizer); }

/// Numbers that Adafactor keeps: rows and columns of each matrix, all of each vector (Shazeer & Stern 2018, section 3).
double factored(const Network& net) {
  double n = 0;
  for (std::size_t b = 0; b < net.blocks.size(); ++b)
    for (const ParamSpec& p : net.blocks[b].params) {
      if (!p.tied_to.empty()) continue;
      const double rows = static_cast<double>(p.shape[0].size), all = static_cast<double>(p.elements());
      n += net.repeat[b] * (p.shape.size() < 2 ? all : rows + all / rows);
    }
  return n;
}

/// All-reduces of an update's numbers by element count on rank 0.
std::vector<double> reduced_numbers(const Program& p) {
  std::vector<double> out;
  for_each_task(p, 0, [&](const Entry& e, const Body& body, const Task& task) {
    if (!std::holds_alternative<CollectiveTask>(task.kind) || body.name != "update") return;
    double n = 0;
    for (const Operand& o : task.operands) n += bytes_of(p, body, o, context_of(p, 0, e)) / 4;
    out.push_back(n);
  });
  return out;
}

}  // namespace

TEST_CASE("ZeRO's table: 16 bytes a parameter with Adam in mixed precision, 12 of them the optimizer's") {
  for (const Optimizer o : {Optimizer::adam, Optimizer::adamw, Optimizer::lamb})
    CHECK(state_bytes(job_with(o)) == 12 * parameters_optimizers(job_with(o)));
  // Master copy and momentum.
  CHECK(state_bytes(job_with(Optimizer::sgd)) == 8 * parameters_optimizers(job_with(Optimizer::sgd)));
  CHECK(state_bytes(job_with(Optimizer::adam, Precision::fp32)) ==
        8 * parameters_optimizers(job_with(Optimizer::adam)));
  const Job adam = job_with(Optimizer::adam);
  const Program p = adam.lower();
  CHECK(persistent_bytes(p, 0, MemoryCategory::weights) + persistent_bytes(p, 0, MemoryCategory::gradients) ==
        4 * parameters_optimizers(adam));
}

TEST_CASE("Adafactor keeps a number per row and column of a matrix") {
  const Job job = job_with(Optimizer::adafactor, Precision::fp32);
  CHECK(state_bytes(job) == 4 * factored(job.workload.network));
  CHECK(state_bytes(job) < 0.1 * 4 * parameters_optimizers(job));
}

TEST_CASE("experts have matrices of their own") {
  Job job(changed("mixtral_8x7b", {{"num_hidden_layers", 1},
                                   {"hidden_size", 64},
                                   {"num_attention_heads", 4},
                                   {"num_key_value_heads", 2},
                                   {"intermediate_size", 96},
                                   {"vocab_size", 128}}));
  job.workload.training.optimizer = Optimizer::adafactor;
  const Program p = job.lower();
  for (const Tensor& t : p.tensors) {
    if (t.name.find("moe.gate_up") == std::string::npos) continue;
    if (t.name.ends_with(".row_avg_sq")) CHECK(p.local_elements(t, p.mesh.context(0)) == 8 * 2 * 96);
    if (t.name.ends_with(".column_avg_sq")) CHECK(p.local_elements(t, p.mesh.context(0)) == 8 * 64);
  }
}

TEST_CASE("one rank needs no sums of others") {
  for (const Optimizer o : {Optimizer::lamb, Optimizer::adafactor}) CHECK(reduced_numbers(job_with(o).lower()).empty());
}

TEST_CASE("LAMB sums two numbers per tensor over the ranks that hold parts of it") {
  Job job = job_with(Optimizer::lamb);
  job.strategy.dp = 2;
  CHECK(reduced_numbers(job.lower()).empty());  // Whole tensors everywhere.
  job.strategy.zero_stage = 1;
  double n = 0;
  for (const double x : reduced_numbers(job.lower())) n += x;
  std::size_t tensors = 0;
  const Network& net = job.workload.network;
  for (std::size_t b = 0; b < net.blocks.size(); ++b)
    for (const ParamSpec& p : net.blocks[b].params)
      tensors += p.tied_to.empty() ? static_cast<std::size_t>(net.repeat[b]) : 0;
  CHECK(n == 2.0 * static_cast<double>(tensors));
  Job split = job_with(Optimizer::lamb);
  split.strategy.tp = 2;
  CHECK(!reduced_numbers(split.lower()).empty());
}

TEST_CASE("Adafactor's statistics are summed where a matrix is divided along the other side") {
  Job job = job_with(Optimizer::adafactor);
  job.strategy.tp = 2;
  const Program p = job.lower();
  for (const Tensor& t : p.tensors) {
    const bool column_parallel = t.name.find("mlp.fc1.weight") != std::string::npos;
    if (column_parallel && t.name.ends_with(".row_avg_sq"))
      CHECK(!std::holds_alternative<Replicate>(layout_on(t.layout, Axis::tp)));
    if (column_parallel && t.name.ends_with(".column_avg_sq"))
      CHECK(std::holds_alternative<Replicate>(layout_on(t.layout, Axis::tp)));
  }
  CHECK(!reduced_numbers(p).empty());
}

TEST_CASE("no update on CPU cores for rules that need norms") {
  for (const Optimizer o : {Optimizer::lamb, Optimizer::adafactor}) {
    Job job = job_with(o);
    job.strategy.offload = Offload::optimizer;
    CHECK_THROWS_AS(job.lower(), Error);
  }
}

TEST_CASE(
    "where ranks divide the state and the host reads the norm, updates count the weights that it handles, each local "
    "expert's its own") {
  const auto handled = [](const Job& job) {
    int n = 0;
    for_each_task(job.lower(), 0, [&](const Entry&, const Body&, const Task& task) {
      if (const auto* c = std::get_if<ComputeTask>(&task.kind); c != nullptr && c->op == ComputeOp::optimizer)
        n += c->kernels - 1;
    });
    return n;
  };
  Job job(shipped("tiny_mixtral"));
  job.strategy.dp = job.strategy.dp_replicate = 4;
  job.strategy.ep = 2;
  job.strategy.zero_stage = 1;
  const Network& net = job.workload.network;
  int weights = 0, updates = 0;
  for (std::size_t b = 0; b < net.blocks.size(); ++b) {
    for (const ParamSpec& p : net.blocks[b].params)
      weights += net.repeat[b] * (p.shape[0].tag == DimTag::experts ? static_cast<int>(p.shape[0].size) / 2 : 1);
    updates += net.blocks[b].params.empty() ? 0 : net.repeat[b];
  }
  CHECK(handled(job) == weights - updates);
  job.strategy.zero_stage = 0;
  CHECK(handled(job) == 0);
  job.strategy.zero_stage = 1;
  job.workload.kernels.clip_on_device = true;
  CHECK(handled(job) == 0);
  job.workload.kernels.clip_on_device = false;
  job.workload.training.clip_gradients = false;
  CHECK(handled(job) == 0);
}
