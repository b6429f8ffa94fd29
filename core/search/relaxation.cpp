#include "core/search/relaxation.hpp"

#include <algorithm>
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

/// What the sibling, whose chunks all have `longest` layers, says of the plan: relaxation.hpp has the formula.
void shorten(const SearchProblem& problem, const StrategySettings& s, int longest, const QuickEstimate& sibling, Relaxed& out) {
  const int layers = problem.workload.network.layers(), microbatches = static_cast<int>(problem.workload.training.global_batch / (s.microbatch * s.dp));
  const Schedule& schedule = *schedules().at(s.schedule).value;
  const PipelineShape shape{s.pp, s.virtual_stages, microbatches};
  const std::vector<int> held = stage_layers(schedule, shape, layers);
  const int whole = longest * s.virtual_stages, most = *std::max_element(held.begin(), held.end());
  Seconds work = out.step_time;
  for (const TimeCategory c : {TimeCategory::bubble, TimeCategory::exposed_pp}) work -= sibling.breakdown[c];
  const Seconds layer = work / (static_cast<double>(microbatches) * whole);
  const double waits = std::max(1.0, schedule.bubble_ratio(shape) * microbatches * s.virtual_stages / std::max(1, s.pp - 1));
  out.step_time -= layer * (static_cast<double>(microbatches) * (whole - most) + waits * (longest * s.pp * s.virtual_stages - layers));
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
    Relaxed out{true, e->step_time - e->breakdown[TimeCategory::exposed_dp] - e->breakdown[TimeCategory::optimizer], e->breakdown[TimeCategory::bubble], in(MemoryCategory::weights), in(MemoryCategory::gradients), in(MemoryCategory::optimizer), in(MemoryCategory::activations)};
    if (longest * chunks != layers) shorten(problem, settings, longest, *e, out);
    return out;
  } catch (const Error&) {
    return {};
  }
}

Bound bound(const Relaxed& r, const SearchProblem& problem, const StrategySettings& s) {
  const MemoryRule rule;
  Bytes held = state_on_device(s, r.weights, r.gradients, r.optimizer);
  if (s.offload == Offload::none || s.offload == Offload::optimizer) held += r.activations;
  const Seconds hidden = steps_in_period(s, problem.workload.input) > 1 ? r.bubble : Seconds{};
  Seconds step = std::max(Seconds{0}, r.step_time - hidden) * kRelaxedMargin;
  const std::int64_t microbatches = problem.workload.training.global_batch / (s.microbatch * s.dp);
  if (const int transfers = transfers_per_microbatch(s); transfers > 0) step = std::max(step, gather_time(problem, s, r.weights) * (kTrafficMargin * transfers * static_cast<double>(microbatches)));
  return {step, held * (kBoundMargin * rule.allocator_factor) + rule.framework};
}

}  // namespace rehearse
