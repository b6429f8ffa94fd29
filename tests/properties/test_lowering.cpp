// Facts of every Program that lower() gives, over drawn combinations of the registered strategies and schedules.

#include "core/base/index.hpp"
#include "core/program/flops.hpp"
#include "tests/properties/any_job.hpp"

#include "core/config/settings/choices.hpp"
#include "core/program/body.hpp"
#include "core/strategy/operators/linear_loss.hpp"
#include "core/strategy/strategies/offload_parameters.hpp"
#include "core/strategy/workload.hpp"

using namespace rehearse;
using namespace rehearse::test;

TEST_CASE("every lowered Program is valid") {
  check_property("validate() accepts it", [] {
    Job job(tiny_gpt());
    validate(any_program(job));
  });
}

TEST_CASE("every lowered Program over images is valid, keeps what it must and computes what the network does") {
  check_property("validate() accepts it, FLOPs but the first layer's input gradient are executed once", [] {
    Job job(tiny_gpt());
    const Program p = any_image_program(job);
    validate(p);
    // The image needs no gradient; layers from which images are gathered on are computed by every tile.
    const double model = p.model_flops_per_step;
    if (job.strategy.recompute == Recompute::none)
      RC_ASSERT(executed_matmul_flops(p).value() < model * job.strategy.tile_h * job.strategy.tile_w);
    RC_ASSERT(executed_matmul_flops(p).value() > 0.6 * model);
    for (const RoleMemory& m : peak_memory(p, Bytes{0}, Bytes{0})) {
      double persistent = 0;
      for (const auto c : {MemoryCategory::weights, MemoryCategory::gradients, MemoryCategory::optimizer})
        persistent += persistent_bytes(p, m.rank, c);
      RC_ASSERT(m.peak.value() >= persistent);
    }
  });
}

TEST_CASE("every lowered Program of two networks is valid, and updates each network once") {
  check_property("validate() accepts it, and every parameter has one update", [] {
    Job job(tiny_gpt());
    const Program p = any_adversarial_program(job);
    validate(p);
    std::map<std::pair<std::string, int>, int> updates;
    for_each_task(p, 0, [&](const Entry& e, const Body& body, const Task& task) {
      for (const Operand& o : task.operands) {
        const Tensor& t = nth(p.tensors, nth(body.formals, o.formal).like);
        if (task.name == "zero_gradients") ++updates[{t.name, e.layer}];
      }
    });
    std::size_t parameters = 0;
    for (const BlockSpec& block : job.workload.network.blocks) parameters += block.params.size();
    RC_ASSERT(updates.size() == parameters);
    for (const auto& [what, times] : updates) RC_ASSERT(times == 1);
  });
}

TEST_CASE("what tiles send their neighbours is what these expect") {
  check_property("counts to and from every pair of neighbours agree", [] {
    Job job(tiny_gpt());
    const Program p = any_image_program(job);
    // By group, sender and receiver, in order.
    using Counts = std::map<std::tuple<int, int, int>, std::vector<std::int64_t>>;
    Counts sent, awaited;
    for (int rank = 0; rank < p.mesh.ranks(); ++rank)
      for_each_task(p, rank, [&](const Entry& e, const Body&, const Task& task) {
        const auto* c = std::get_if<CollectiveTask>(&task.kind);
        if (c == nullptr || c->op != CollectiveOp::halo_exchange) return;
        const std::vector<int> members = p.mesh.members(nth(p.groups, c->group), rank, p.exprs);
        ExprContext at = context_of(p, rank, e);
        for (std::size_t i = 0; i < members.size(); ++i) {
          at.peer = static_cast<int>(i);
          sent[{c->group, rank, members[i]}].push_back(p.exprs.evaluate(c->count_to_peer, at));
          awaited[{c->group, members[i], rank}].push_back(p.exprs.evaluate(c->count_from_peer, at));
        }
      });
    RC_ASSERT(sent == awaited);
  });
}

/// A vocabulary that tp does not divide is filled up with rows that belong to no token.
bool pads(const Program& p) {
  const auto padded = [](const auto& l) {
    const auto* s = std::get_if<Shard>(&l.second);
    return s != nullptr && s->padded;
  };
  return std::any_of(p.tensors.begin(), p.tensors.end(),
                     [&](const Tensor& t) { return std::any_of(t.layout.begin(), t.layout.end(), padded); });
}

namespace {

/// Logits that stay on the chip are made a second time in backward.
bool makes_logits_again(const Workload& job) {
  return std::any_of(job.network.blocks.begin(), job.network.blocks.end(), [&](const BlockSpec& block) {
    return std::any_of(block.ops.begin(), block.ops.end(),
                       [&](const OpSpec& op) { return ops::logits_on_chip(op, job.kernels); });
  });
}

}  // namespace

TEST_CASE("a step executes the model's FLOPs, and no fewer for recomputing") {
  check_property("executed >= model, equal without recomputation", [] {
    Job job(tiny_gpt());
    const Program p = any_program(job);
    const bool again =
        makes_logits_again(job.workload) || job.strategy.recompute == Recompute::full ||
        (job.strategy.recompute == Recompute::selective && job.workload.kernels.attention == AttentionKernel::unfused);
    // Rows are dropped or filled up.
    if (job.workload.training.experts.capacity_factor > 0 && job.workload.network.routing() != nullptr) return;
    // BERT's head transforms h to h: without sequence parallelism every tensor-parallel rank does all of it.
    const bool repeated =
        job.strategy.tp > 1 && !job.strategy.sequence_parallel && job.workload.network.name == "tiny_bert";
    if (again || repeated)
      RC_ASSERT(executed_matmul_flops(p).value() > p.model_flops_per_step);
    else if (pads(p))
      RC_ASSERT(executed_matmul_flops(p).value() >= p.model_flops_per_step);
    else
      RC_ASSERT(executed_matmul_flops(p).value() == p.model_flops_per_step);
  });
}

TEST_CASE("shards add up to the model on every replica") {
  check_property("weights over the ranks of a replica, copies over tp counted once, are the parameters", [] {
    Job job(tiny_gpt());
    const Program p = any_program(job);
    double elements = 0;
    for (int rank = 0; rank < p.mesh.ranks(); ++rank) {
      const ExprContext at = p.mesh.context(rank);
      for (const Role::Persistent& held : nth(p.roles, nth(p.role_of_rank, rank)).persistent) {
        const Tensor& t = nth(p.tensors, held.tensor);
        // FSDP in mixed precision stores the master copy only, where that lies beside what is computed, or both are in
        // host memory.
        const bool alone = job.strategy.fsdp.enabled && job.strategy.dp_shard * job.strategy.cp > 1 &&
                           (offloads_parameters(job.strategy) || job.strategy.offload == Offload::none);
        const bool master = alone && t.name.find(".master") != std::string::npos;
        if (t.category != MemoryCategory::weights && !master) continue;
        // Experts' copies lie along edp, unless that slices them.
        const bool copied = in_expert_view(t.layout) && job.strategy.data_parallel == DataParallelism::replicas &&
                            std::holds_alternative<Replicate>(layout_on(t.layout, Axis::edp));
        double copies = copied ? nth(at.extent, Axis::edp) : 1;
        for (const Axis axis : {Axis::dp_replicate, Axis::dp_shard, Axis::cp, Axis::tp}) {
          const bool kept = axis == Axis::tp || job.strategy.data_parallel == DataParallelism::replicas;
          if (!in_expert_view(t.layout) && kept && std::holds_alternative<Replicate>(layout_on(t.layout, axis)))
            copies *= nth(at.extent, axis);
        }
        elements += static_cast<double>(p.local_elements(t, at)) / copies;
      }
    }
    const Network& net = job.workload.network;
    // Both ends of the pipeline hold the shared embedding, unless they lie on one stage.
    const Schedule& schedule = *schedules().at(job.strategy.schedule).value;
    const PipelineShape shape{job.strategy.pp, job.strategy.virtual_stages, job.microbatches};
    std::set<int> ends;
    for (int copy = 0; copy < schedule.copies(); ++copy)
      for (const int chunk : {0, shape.stages * shape.virtual_stages - 1})
        ends.insert(schedule.stage_of(chunk, shape, copy));
    const double tied = schedule.copies() > 1 ? 0 : static_cast<double>(ends.size()) - 1;
    double expected = static_cast<double>(net.parameter_count());
    for (const BlockSpec& b : net.blocks)
      for (const ParamSpec& q : b.params)
        if (!q.tied_to.empty() && !q.tied_to.starts_with(b.name + "."))
          expected += tied * static_cast<double>(q.elements());
    expected *= schedule.copies();
    RC_ASSERT(elements >= expected * (1 - 1e-6));
    if (!pads(p)) RC_ASSERT(elements <= expected * (1 + 1e-6));
  });
}

TEST_CASE("memory never falls below what persists") {
  check_property("peak of each role >= weights + gradients + optimizer, and its categories add up", [] {
    Job job(tiny_gpt());
    const Program p = any_program(job);
    for (const RoleMemory& m : peak_memory(p, Bytes{0}, Bytes{0})) {
      double persistent = 0, sum = 0;
      for (const auto c : {MemoryCategory::weights, MemoryCategory::gradients, MemoryCategory::optimizer})
        persistent += persistent_bytes(p, m.rank, c);
      for (const Bytes& b : m.by_category) sum += b.value();
      RC_ASSERT(m.peak.value() > persistent);
      RC_ASSERT(std::abs(sum - m.peak.value()) < 1e-6 * sum);
    }
  });
}
