#include "core/search/bounds.hpp"

#include <algorithm>

#include "core/cost/estimate.hpp"
#include "core/cost/memory_rule.hpp"
#include "core/schedule/schedule.hpp"
#include "core/strategy/lower.hpp"

namespace rehearse {

namespace {

/// One stage, one replica or as many as experts need, nothing sharded or moved.
StrategySettings alone(StrategySettings s) {
  s.pp = s.virtual_stages = 1;
  s.schedule = "1f1b";
  s.uneven_layers = s.scatter_gather = false;
  s.zero_stage = 0;
  s.fsdp.enabled = s.overlap.param_gather = false;
  s.offload = Offload::none;
  s.balance = Balance::none;
  s.dp = 1;
  while (s.dp * s.cp * s.tp % (s.ep * s.etp) != 0) ++s.dp;
  s.dp_shard = 1;
  s.dp_replicate = s.dp;
  s.placement = {"tp", "cp", "ep", "dp", "pp", "tile_h", "tile_w"};
  return s;
}

/// Time of the passes: what is not the update's or the replicas'.
Seconds of_passes(const Breakdown& b) {
  Seconds out;
  for (const TimeCategory c : {TimeCategory::matmul, TimeCategory::attention, TimeCategory::memory_bound, TimeCategory::loss, TimeCategory::recompute, TimeCategory::launch, TimeCategory::exposed_tp,
                               TimeCategory::exposed_cp, TimeCategory::exposed_ep, TimeCategory::exposed_tile})
    out += b[c];
  return out;
}

Bytes in(const RoleMemory& m, MemoryCategory c) { return m.by_category[static_cast<std::size_t>(c)]; }

/// What half of the layers keep, as the difference to a network of half of them: what stands outside the layers cancels.
Bytes saved_by_layers(const Workload& workload, const StrategySettings& settings, int ranks, const RoleMemory& whole) {
  Workload half = workload;
  int layers = 0, left = 0;
  for (std::size_t b = 0; b < half.network.blocks.size(); ++b) {
    if (!half.network.blocks[b].is_layer()) continue;
    layers += half.network.repeat[b];
    half.network.repeat[b] = std::max(1, half.network.repeat[b] / 2);
    left += half.network.repeat[b];
  }
  if (layers == left) return {};
  const MemoryRule rule;
  const RoleMemory less = rule.peaks(lower(half, settings, ranks)).front();
  const Bytes difference = in(whole, MemoryCategory::activations) - in(less, MemoryCategory::activations);
  return std::max(Bytes{0}, difference * (static_cast<double>(layers) / (layers - left)));
}

}  // namespace

PassKey pass_key(const StrategySettings& s) {
  return {s.tp, s.cp, s.ep, s.etp, s.tile_h, s.tile_w, s.microbatch, s.sequence_parallel, static_cast<std::int64_t>(s.recompute), static_cast<std::int64_t>(s.context)};
}

PassCosts pass_costs(const SearchProblem& problem, const StrategySettings& settings) {
  PassCosts out;
  if (problem.workload.network.uneven() || problem.workload.input.sample > Bytes{0} || problem.cluster.parts().size() > 1) return out;
  try {
    const StrategySettings s = alone(settings);
    Workload one = problem.workload;
    one.training.global_batch = s.microbatch * s.dp;
    const int ranks = s.dp * s.cp * s.tp * s.tile_h * s.tile_w;
    if (ranks > problem.cluster.device_count()) return out;
    const Program program = lower(one, s, ranks);
    const RoleMemory memory = MemoryRule{}.peaks(program).front();
    out.work = of_passes(estimate(program, problem.cost, s, 1).breakdown);
    out.weights = in(memory, MemoryCategory::weights);
    out.gradients = in(memory, MemoryCategory::gradients);
    out.optimizer = in(memory, MemoryCategory::optimizer);
    out.saved = saved_by_layers(one, s, ranks, memory);
    out.known = true;
  } catch (const Error&) {
    out = {};
  }
  return out;
}

Bound bound(const PassCosts& costs, const StrategySettings& s, std::int64_t global_batch) {
  if (!costs.known) return {};
  const MemoryRule rule;
  const int m = static_cast<int>(global_batch / (s.microbatch * s.dp));
  const PipelineShape shape{s.pp, s.virtual_stages, m};
  const Schedule& schedule = *schedules().at(s.schedule).value;
  const double stages = s.pp;
  const double replicas = std::max(s.dp * s.cp, s.dp * s.cp * s.tp / (s.ep * s.etp));
  const double shards = s.fsdp.enabled ? static_cast<double>(s.dp_shard) * s.cp : replicas;
  const bool parameters = s.fsdp.enabled || s.zero_stage == 3, gradients = parameters || s.zero_stage == 2, optimizer = gradients || s.zero_stage == 1;
  Bytes held = costs.weights / (parameters ? shards : 1) + costs.gradients / (gradients ? shards : 1);
  if (s.offload == Offload::none || s.offload == Offload::activations) held += costs.optimizer / (optimizer ? shards : 1);
  held *= schedule.copies() / stages;
  if (s.offload == Offload::none || s.offload == Offload::optimizer) held += costs.saved * (schedule.chunks_in_flight(0, shape) / (stages * s.virtual_stages));
  const double bubble = s.pp > 1 ? schedule.bubble_ratio(shape) : 0;
  return {costs.work * (kBoundMargin * m / stages * (1 + bubble)), held * (kBoundMargin * rule.allocator_factor) + rule.framework};
}

}  // namespace rehearse
