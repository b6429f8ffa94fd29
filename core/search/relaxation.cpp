#include "core/search/relaxation.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/cost/memory_rule.hpp"
#include "core/strategy/state_shards.hpp"

namespace rehearse {

namespace {

/// Gathers or scatters of all of a stage's parameters that each microbatch makes, one after the other.
int transfers_per_microbatch(const StrategySettings& s) {
  if (s.zero_stage == 3) return 2;
  if (s.zero_stage == 2) return 1;
  const bool kept = s.fsdp.reshard_after_forward == Reshard::never || (s.fsdp.reshard_after_forward == Reshard::automatic && s.pp > 1);
  return s.fsdp.enabled && !kept ? 2 : 0;
}

int microbatches_of(const StrategySettings& s, const Workload& workload) { return static_cast<int>(workload.training.global_batch / (s.microbatch * s.dp)); }

/// Step of a sibling on its own, without what sharding changes.
Seconds passes_of(const QuickEstimate& e) { return e.step_time - e.breakdown[TimeCategory::exposed_dp] - e.breakdown[TimeCategory::optimizer]; }

/// With unequal chunks, from siblings whose chunks all have as many layers as the shortest, and as the longest: relaxation.hpp has the formula.
Seconds unequal_step(const StrategySettings& s, const std::vector<int>& held, const Workload& workload, const QuickEstimate& shorter, const QuickEstimate& longer) {
  const int layers = workload.network.layers(), microbatches = microbatches_of(s, workload);
  const int shortest = layers / (s.pp * s.virtual_stages), most = *std::max_element(held.begin(), held.end());
  const double passes = static_cast<double>(microbatches) * s.virtual_stages, filling = s.pp - 1;
  const double bubble = schedules().at(s.schedule).value->bubble_ratio({s.pp, s.virtual_stages, microbatches}) * passes;  // In chunks.
  const Seconds layer = max(Seconds{0}, passes_of(longer) - passes_of(shorter)) / (passes + std::max(filling, bubble));
  const Seconds ends = passes_of(shorter) + layer * (static_cast<double>(microbatches) * (std::min(held.front(), held.back()) - shortest * s.virtual_stages));
  const double waits = std::min(1.0, bubble / filling);
  const Seconds fullest = layer * (static_cast<double>(microbatches) * most + waits * (s.virtual_stages == 1 ? layers - most : filling * shortest));
  return max(ends, fullest);
}

/// Scales what is held to the fullest stage of `held` layers, of a sibling whose stages all have `whole`.
void scale_memory(const QuickEstimate& sibling, const std::vector<int>& held, int whole, Relaxed& out) {
  const auto fullest = static_cast<std::size_t>(sibling.memory.role);
  const double share = static_cast<double>(fullest < held.size() ? held[fullest] : *std::min_element(held.begin(), held.end())) / whole;
  for (Bytes* b : {&out.weights, &out.gradients, &out.optimizer, &out.activations}) *b *= share;
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

Relaxed relaxed(QuickEvaluator& quick, const SearchProblem& problem, const StrategySettings& settings) {
  try {
    const int layers = problem.workload.network.layers(), chunks = settings.pp * settings.virtual_stages;
    if (chunks > layers) return {};
    const int longest = (layers + chunks - 1) / chunks;
    const std::optional<QuickEstimate> e = quick.alone(settings, longest * chunks);
    if (!e) return {};
    const auto in = [&e](MemoryCategory c) { return e->memory.by_category[static_cast<std::size_t>(c)]; };
    Relaxed out{true, passes_of(*e), in(MemoryCategory::weights), in(MemoryCategory::gradients), in(MemoryCategory::optimizer), in(MemoryCategory::activations)};
    if (longest * chunks == layers) return out;
    const std::optional<QuickEstimate> shorter = quick.alone(settings, (longest - 1) * chunks);
    if (!shorter) return {};
    const std::vector<int> held = stage_layers(*schedules().at(settings.schedule).value, {settings.pp, settings.virtual_stages, microbatches_of(settings, problem.workload)}, layers);
    out.step_time = unequal_step(settings, held, problem.workload, *shorter, *e);
    scale_memory(*e, held, longest * settings.virtual_stages, out);
    return out;
  } catch (const Error&) {
    return {};
  }
}

Seconds GatherTimes::at_least(const StrategySettings& s, Bytes bytes) {
  const int shards = s.fsdp.enabled ? s.dp_shard : s.dp;
  int stride = 1;
  for (const std::string& axis : s.placement) {
    if (axis == "dp") break;
    stride *= axis == "tp" ? s.tp : axis == "pp" ? s.pp : axis == "cp" ? s.cp : 1;
  }
  if (s.cp > 1 || shards == 1 || bytes <= Bytes{0} || (shards - 1) * stride >= problem_.cluster.device_count()) return {};
  const auto step = static_cast<int>(std::floor(kStepsPerDoubling * std::log2(bytes.value())));
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = known_.find({shards, stride, step}); at != known_.end()) return at->second;
  }
  std::vector<DeviceId> group;
  for (int i = 0; i < shards; ++i) group.push_back(i * stride);
  const Seconds time = problem_.cost.collectives().choose(CollectiveOp::all_gather, Bytes{std::exp2(step / kStepsPerDoubling)}, group).time;
  const std::lock_guard lock(mutex_);
  return known_.emplace(std::tuple(shards, stride, step), time).first->second;
}

Bound bound(const Relaxed& r, GatherTimes& gathers, const StrategySettings& s) {
  const MemoryRule rule;
  Bytes held = state_on_device(s, r.weights, r.gradients, r.optimizer);
  if (s.offload == Offload::none || s.offload == Offload::optimizer) held += r.activations;
  Seconds step = r.step_time * kRelaxedMargin;
  if (const int transfers = transfers_per_microbatch(s); transfers > 0) step = std::max(step, gathers.at_least(s, r.weights) * (kTrafficMargin * transfers * microbatches_of(s, gathers.problem().workload)));
  return {step, held * (kBoundMargin * rule.allocator_factor) + rule.framework};
}

}  // namespace rehearse
