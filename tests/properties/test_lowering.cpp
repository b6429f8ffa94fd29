// Facts of every Program that lower() gives, over drawn combinations of the registered strategies and schedules.

#include "tests/properties/any_job.hpp"

using namespace rehearse;
using namespace rehearse::test;

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
    double elements = 0;
    for (int rank = 0; rank < p.mesh.ranks(); ++rank) {
      const ExprContext at = p.mesh.context(rank);
      for (const Role::Persistent& held : p.roles[static_cast<std::size_t>(p.role_of_rank[static_cast<std::size_t>(rank)])].persistent) {
        const Tensor& t = p.tensors[static_cast<std::size_t>(held.tensor)];
        // FSDP in mixed precision stores the master copy only.
        const bool master = job.strategy.offload == Offload::none && job.strategy.fsdp.enabled && job.strategy.dp_shard > 1 && t.name.find(".master") != std::string::npos;
        if (t.category != MemoryCategory::weights && !master) continue;
        double copies = 1;
        for (const Axis a : {Axis::dp_replicate, Axis::dp_shard, Axis::tp})
          if (std::holds_alternative<Replicate>(layout_on(t.layout, a)) && (a == Axis::tp || job.strategy.data_parallel == DataParallelism::replicas)) copies *= at.extent[static_cast<std::size_t>(a)];
        elements += static_cast<double>(p.local_elements(t, at)) / copies;
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
