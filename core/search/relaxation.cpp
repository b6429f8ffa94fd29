#include "core/search/relaxation.hpp"

#include <algorithm>
#include <vector>

#include "core/cost/memory_rule.hpp"

namespace rehearse {

namespace {

/// Gathers or scatters of all of a stage's parameters that each microbatch makes, one after the other.
int transfers_per_microbatch(const StrategySettings& s) {
  if (s.zero_stage == 3) return 2;
  if (s.zero_stage == 2) return 1;
  const bool kept = s.fsdp.reshard_after_forward == Reshard::never || (s.fsdp.reshard_after_forward == Reshard::automatic && s.pp > 1);
  return s.fsdp.enabled && !kept ? 2 : 0;
}

/// Of one gather of `bytes` over the first stage's first group of shards.
Seconds gather_time(const SearchProblem& problem, const StrategySettings& s, Bytes bytes) {
  const int shards = s.fsdp.enabled ? s.dp_shard : s.dp;
  int stride = 1;
  for (const std::string& axis : s.placement) {
    if (axis == "dp") break;
    stride *= axis == "tp" ? s.tp : axis == "pp" ? s.pp : axis == "cp" ? s.cp : 1;
  }
  if (s.cp > 1 || shards == 1 || (shards - 1) * stride >= problem.cluster.device_count()) return {};
  std::vector<DeviceId> group;
  for (int i = 0; i < shards; ++i) group.push_back(i * stride);
  return problem.cost.collectives().choose(CollectiveOp::all_gather, bytes, group).time;
}

}  // namespace

StrategySettings relaxed_settings(const StrategySettings& settings) {
  StrategySettings out = settings;
  out.offload = Offload::none;
  out.zero_stage = 0;
  out.fsdp.enabled = false;
  out.dp_shard = 1;
  out.dp_replicate = out.dp;
  out.overlap.param_gather = out.overlap.grad_reduce = false;
  return out;
}

Relaxed relaxed(QuickEvaluator& quick, const StrategySettings& settings) {
  try {
    const std::optional<QuickEstimate> e = quick.alone(settings);
    if (!e) return {};
    const auto in = [&e](MemoryCategory c) { return e->memory.by_category[static_cast<std::size_t>(c)]; };
    const Seconds step = e->step_time - e->breakdown[TimeCategory::exposed_dp] - e->breakdown[TimeCategory::optimizer];
    return {true, step, in(MemoryCategory::weights), in(MemoryCategory::gradients), in(MemoryCategory::optimizer), in(MemoryCategory::activations)};
  } catch (const Error&) {
    return {};
  }
}

Bound bound(const Relaxed& r, const SearchProblem& problem, const StrategySettings& s) {
  const MemoryRule rule;
  const double replicas = std::max(s.dp * s.cp, s.dp * s.cp * s.tp / (s.ep * s.etp));
  const double shards = s.fsdp.enabled ? static_cast<double>(s.dp_shard) * s.cp : replicas;
  const bool parameters = s.fsdp.enabled || s.zero_stage == 3, gradients = parameters || s.zero_stage == 2, optimizer = gradients || s.zero_stage == 1;
  Bytes held = r.weights / (parameters ? shards : 1) + r.gradients / (gradients ? shards : 1);
  if (s.offload == Offload::none || s.offload == Offload::activations) held += r.optimizer / (optimizer ? shards : 1);
  if (s.offload == Offload::none || s.offload == Offload::optimizer) held += r.activations;
  Seconds step = r.step_time * kRelaxedMargin;
  const std::int64_t microbatches = problem.workload.training.global_batch / (s.microbatch * s.dp);
  if (const int transfers = transfers_per_microbatch(s); transfers > 0) step = std::max(step, gather_time(problem, s, r.weights) * (kTrafficMargin * transfers * static_cast<double>(microbatches)));
  return {step, held * (kBoundMargin * rule.allocator_factor) + rule.framework};
}

}  // namespace rehearse
