// Facts of every Program that lower() gives, over drawn combinations of the registered strategies and schedules.

#include <fmt/format.h>

#include "core/program/flops.hpp"
#include "core/schedule/schedule.hpp"
#include "tests/support/property.hpp"
#include "tests/unit/program/lowered.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

template <class T>
T any_of(std::vector<T> values) { return *rc::gen::elementOf(std::move(values)); }

bool coin() { return *rc::gen::arbitrary<bool>(); }

Network any_network() {
  static const std::vector<Network> kNetworks{tiny_gpt(), tiny_gpt(4, 0.0), tiny_llama(), tiny_neox()};
  return any_of(kNetworks);
}

bool runs(const Schedule& schedule, const PipelineShape& shape) {
  try {
    schedule.check(shape);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// A registered schedule with a shape that it accepts.
void draw_pipeline(Job& job) {
  struct Choice { std::string schedule; PipelineShape shape; };
  static const std::vector<Choice> kChoices = [] {
    std::vector<Choice> all;
    for (const auto& entry : schedules().entries())
      for (const int p : {1, 2, 4})
        for (const int v : {1, 2, 4})
          for (const int m : {1, 2, 3, 4, 8})
            if (4 % (p * v) == 0 && runs(*entry.value, {p, v, m})) all.push_back({entry.name, {p, v, m}});
    return all;
  }();
  const Choice c = any_of(kChoices);
  job.strategy.schedule = c.schedule;
  job.strategy.pp = c.shape.stages;
  job.strategy.virtual_stages = c.shape.virtual_stages;
  job.microbatches = c.shape.microbatches;
}

Job any_job() {
  Job job(any_network());
  draw_pipeline(job);
  StrategySettings& s = job.strategy;
  s.tp = any_of<int>({1, 2, 4});
  s.dp_replicate = any_of<int>({1, 2});
  s.dp_shard = any_of<int>({1, 2});
  s.dp = s.dp_replicate * s.dp_shard;
  s.microbatch = any_of<int>({1, 2});
  s.sequence_parallel = coin();
  s.zero_stage = any_of<int>({0, 1});
  s.recompute = any_of<Recompute>({Recompute::none, Recompute::selective, Recompute::full});
  s.scatter_gather = coin();
  s.bucket = Bytes{any_of<double>({1e3, 2e4, 25e6})};
  s.overlap.grad_reduce = coin();
  s.overlap.param_gather = coin();
  s.overlap.pp = coin();
  if (coin()) s.placement = {"tp", "pp", "dp"};
  job.workload.kernels.attention = any_of<AttentionKernel>({AttentionKernel::unfused, AttentionKernel::flash});
  job.workload.kernels.fused_norm = coin();
  job.workload.kernels.fused_cross_entropy = coin();
  job.workload.training.precision = any_of<Precision>({Precision::fp32, Precision::bf16, Precision::fp16_mixed, Precision::bf16_mixed});
  job.workload.training.optimizer = any_of<Optimizer>({Optimizer::sgd, Optimizer::adamw});
  job.workload.training.clip_gradients = coin();
  return job;
}

std::string describe(const Job& job) {
  const StrategySettings& s = job.strategy;
  return fmt::format("{} {} pp={} v={} m={} tp={} dp={}*{} sp={} zero={} recompute={} attention={} fused={},{} scatter={} overlap={},{},{} bucket={}",
                     job.workload.network.name, s.schedule, s.pp, s.virtual_stages, job.microbatches, s.tp, s.dp_replicate, s.dp_shard,
                     s.sequence_parallel, s.zero_stage, name_of(s.recompute), name_of(job.workload.kernels.attention),
                     job.workload.kernels.fused_norm, job.workload.kernels.fused_cross_entropy, s.scatter_gather, s.overlap.grad_reduce,
                     s.overlap.param_gather, s.overlap.pp, s.bucket.value());
}

/// The Program of a drawn job; combinations that a strategy refuses are drawn again.
Program any_program(Job& job) {
  job = any_job();
  RC_LOG(describe(job));
  try {
    return job.lower();
  } catch (const Error&) {
    RC_DISCARD("refused");
  }
}

}  // namespace

TEST_CASE("every lowered Program is valid") {
  check_property("validate() accepts it", [] {
    Job job(tiny_gpt());
    validate(any_program(job));
  });
}

TEST_CASE("a step executes the model's FLOPs, and no fewer for recomputing") {
  check_property("executed >= model, equal without recomputation", [] {
    Job job(tiny_gpt());
    const Program p = any_program(job);
    const bool again = job.strategy.recompute == Recompute::full ||
                       (job.strategy.recompute == Recompute::selective && job.workload.kernels.attention == AttentionKernel::unfused);
    if (again) RC_ASSERT(p.hardware_flops_per_step > p.model_flops_per_step);
    else RC_ASSERT(p.hardware_flops_per_step == p.model_flops_per_step);
  });
}

TEST_CASE("shards add up to the model on every replica") {
  check_property("weights over the ranks of a replica, copies over tp counted once, are the parameters", [] {
    Job job(tiny_gpt());
    const Program p = any_program(job);
    std::vector<double> copies_seen;
    double elements = 0;
    for (int rank = 0; rank < p.mesh.ranks(); ++rank) {
      const ExprContext at = p.mesh.context(rank);
      for (const Role::Persistent& held : p.roles[static_cast<std::size_t>(p.role_of_rank[static_cast<std::size_t>(rank)])].persistent) {
        const Tensor& t = p.tensors[static_cast<std::size_t>(held.tensor)];
        if (t.category != MemoryCategory::weights) continue;
        const bool split = !std::holds_alternative<Replicate>(layout_on(t.layout, Axis::tp));
        elements += static_cast<double>(p.local_elements(t, at)) / (job.strategy.dp * (split ? 1 : job.strategy.tp));
      }
    }
    const Network& net = job.workload.network;
    const double tied = job.strategy.pp > 1 ? 1 : 0;  // Both ends of the pipeline then hold the shared embedding.
    double expected = static_cast<double>(net.parameter_count());
    for (const BlockSpec& b : net.blocks)
      for (const ParamSpec& q : b.params)
        if (!q.tied_to.empty()) expected += tied * static_cast<double>(q.elements());
    RC_ASSERT(std::abs(elements - expected) < 1e-6 * expected);
  });
}

TEST_CASE("memory never falls below what persists") {
  check_property("peak of each role >= weights + gradients + optimizer, and its categories add up", [] {
    Job job(tiny_gpt());
    const Program p = any_program(job);
    for (const RoleMemory& m : peak_memory(p, Bytes{0}, Bytes{0})) {
      double persistent = 0, sum = 0;
      for (const auto c : {MemoryCategory::weights, MemoryCategory::gradients, MemoryCategory::optimizer}) persistent += persistent_bytes(p, m.rank, c);
      for (const Bytes& b : m.by_category) sum += b.value();
      RC_ASSERT(m.peak.value() > persistent);
      RC_ASSERT(std::abs(sum - m.peak.value()) < 1e-6 * sum);
    }
  });
}
