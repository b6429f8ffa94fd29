#include "core/search/bounds/relaxation.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/search/bounds/siblings.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

int microbatches_of(const StrategySettings& s, const Workload& workload) {
  return static_cast<int>(workload.training.global_batch / (s.microbatch * s.dp));
}

/// Step of a sibling on its own, without what sharding changes.
Seconds passes_of(const QuickEstimate& e) {
  return e.step_time - e.breakdown[TimeCategory::exposed_dp] - e.breakdown[TimeCategory::optimizer];
}

/// With unequal chunks, from siblings whose chunks all have as many layers as the shortest, and as the longest:
/// relaxation.hpp has the formula.
Seconds unequal_step(const StrategySettings& s, const std::vector<int>& held, const Workload& workload,
                     const QuickEstimate& shorter, const QuickEstimate& longer) {
  const int layers = workload.network.layers(), microbatches = microbatches_of(s, workload);
  const int shortest = layers / (s.pp * s.virtual_stages), most = *std::max_element(held.begin(), held.end());
  const double passes = static_cast<double>(microbatches) * s.virtual_stages, filling = s.pp - 1;
  // In chunks.
  const double bubble = schedules().at(s.schedule).value->bubble_ratio({s.pp, s.virtual_stages, microbatches}) * passes;
  const Seconds layer = max(Seconds{0}, passes_of(longer) - passes_of(shorter)) / (passes + std::max(filling, bubble));
  const Seconds ends =
      passes_of(shorter) +
      layer * (static_cast<double>(microbatches) * (std::min(held.front(), held.back()) - shortest * s.virtual_stages));
  const double waits = std::min(1.0, bubble / filling);
  const Seconds fullest = layer * (static_cast<double>(microbatches) * most +
                                   waits * (s.virtual_stages == 1 ? layers - most : filling * shortest));
  return max(ends, fullest);
}

/// Scales what is held to the fullest stage of `held` layers, of a sibling whose stages all have `whole`.
void scale_memory(const QuickEstimate& sibling, const std::vector<int>& held, int whole, Relaxed& out) {
  const auto fullest = static_cast<std::size_t>(sibling.memory.role);
  const int least = *std::min_element(held.begin(), held.end()), most = fullest < held.size() ? held[fullest] : least;
  StageState& s = out.stage;
  for (Bytes* b : {&s.weights, &s.gradients, &s.optimizer, &s.activations}) *b *= static_cast<double>(most) / whole;
  out.share_of_layers *= static_cast<double>(least) / most;
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
    if (chunks > layers || schedules().at(settings.schedule).value->splits_backward()) return {};  // See steady_step.
    const int longest = (layers + chunks - 1) / chunks;
    const std::optional<QuickEstimate> e = quick.alone(settings, longest * chunks);
    if (!e) return {};
    const auto in = [&e](MemoryCategory c) { return nth(e->memory.by_category, c); };
    const Schedule& schedule = *schedules().at(settings.schedule).value;
    const PipelineShape shape{settings.pp, settings.virtual_stages, microbatches_of(settings, problem.workload)};
    Relaxed out{true,
                passes_of(*e),
                {in(MemoryCategory::weights), in(MemoryCategory::gradients), in(MemoryCategory::optimizer),
                 in(MemoryCategory::activations), problem.workload.network.routing() != nullptr}};
    out.beside = least_whole_beside(schedule, shape, std::min(e->memory.role, settings.pp - 1));
    out.share_of_layers = share_of_layers(problem.workload.network, settings.pp);
    out.layer = e->layer;
    if (longest * chunks == layers) return out;
    const std::optional<QuickEstimate> shorter = quick.alone(settings, (longest - 1) * chunks);
    if (!shorter) return {};
    const std::vector<int> held = stage_layers(schedule, shape, layers);
    out.step_time = unequal_step(settings, held, problem.workload, *shorter, *e);
    scale_memory(*e, held, longest * settings.virtual_stages, out);
    return out;
  } catch (const Error&) {
    return {};
  } catch (const std::logic_error&) {  // A defect, which evaluate() counts: nothing is bounded.
    return {};
  }
}

Bound bound(const Relaxed& r, PlanTraffic& traffic, const StrategySettings& s) {
  const Workload& workload = traffic.problem().workload;
  const int layers = workload.network.layers(), chunk = layers / (s.pp * s.virtual_stages),
            microbatches = microbatches_of(s, workload);
  const double of_layers = r.share_of_layers, of_one = of_layers / (chunk * s.virtual_stages);
  // Unit: a layer, or all that stands outside.
  const double largest = std::max(1.0 / (chunk * s.virtual_stages), 1 - of_layers);
  StageState stage = r.stage;
  stage.activations *= kept_share(s, layers);
  Seconds passes = r.step_time;
  passes += traffic.waits_of_passes(s, stage.weights * of_one, stage.gradients * of_one, r.layer, chunk) * microbatches;
  const Seconds update =
      traffic.update_on_host(s, stage.weights * of_layers, stage.gradients * of_layers, stage.optimizer * of_layers);
  passes += exposed_update(update, passes / microbatches, s.pp, microbatches);
  return {
      max(passes * kRelaxedMargin, traffic.over_replicas(s, stage.weights, stage.gradients, largest) * microbatches),
      least_memory(s, stage, r.beside)};
}

}  // namespace rehearse
