#include "core/search/bounds/least_memory.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/price/memory_rule.hpp"
#include "core/strategy/state_shards.hpp"

namespace rehearse {

namespace {

using Part = std::pair<int, int>;  // Chunk and copy.

/// With more microbatches no stage holds less.
PipelineShape few_microbatches(const PipelineShape& shape) {
  return {shape.stages, shape.virtual_stages, std::min(shape.microbatches, 2 * shape.stages)};
}

}  // namespace

WholeBeside whole_beside(const Schedule& schedule, const PipelineShape& shape, int stage) {
  const std::vector<Slot> slots = schedule.order(stage, shape);
  std::set<Part> parts;
  std::map<Part, std::size_t> last;  // Backward.
  for (std::size_t i = 0; i < slots.size(); ++i) {
    parts.insert({slots[i].chunk, slots[i].copy});
    if (slots[i].pass != Pass::forward) last[{slots[i].chunk, slots[i].copy}] = i;
  }
  std::size_t whole_until = std::numeric_limits<std::size_t>::max();
  for (const auto& [part, i] : last) whole_until = std::min(whole_until, i);
  std::set<Part> forward, backward;
  int alive = 0, most = 0, beside_weights = 0, beside_gradients = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (i <= whole_until && forward.size() == parts.size()) beside_weights = std::max(beside_weights, alive);
    if (i <= whole_until && backward.size() == parts.size()) beside_gradients = std::max(beside_gradients, alive);
    const Slot& slot = slots[i];
    (slot.pass == Pass::forward ? forward : backward).insert({slot.chunk, slot.copy});
    alive += slot.pass == Pass::forward ? 1 : slot.pass == Pass::backward_input ? 0 : -1;
    most = std::max(most, alive);
  }
  return {static_cast<double>(beside_weights) / most, static_cast<double>(beside_gradients) / most};
}

WholeBeside least_whole_beside(const Schedule& schedule, const PipelineShape& shape, int stage) {
  return whole_beside(schedule, few_microbatches(shape), stage);
}

Bytes most_kept(const Schedule& schedule, const PipelineShape& shape, const std::vector<KeptInChunk>& chunks) {
  Bytes most;
  for (const int stage : std::set<int>{0, shape.stages / 2, shape.stages - 1}) {
    Bytes now;
    for (const Slot& slot : schedule.order(stage, few_microbatches(shape))) {
      const KeptInChunk& kept = nth(chunks, slot.chunk);
      switch (slot.pass) {
        case Pass::forward: now += kept.forward; break;
        case Pass::backward: now -= kept.forward; break;
        case Pass::backward_input: now += kept.halved - kept.forward; break;
        case Pass::backward_weight: now -= kept.halved; break;
      }
      most = max(most, now);
    }
  }
  return most;
}

double kept_share(const StrategySettings& s, int layers) {
  const int chunks = s.pp * s.virtual_stages, shortest = std::max(1, layers / chunks),
            longest = std::max(1, (layers + chunks - 1) / chunks);
  const auto kept = [&](int chunk) { return 1 - static_cast<double>(moved_layers(s, chunk)) / chunk; };
  return std::min(kept(shortest), kept(longest));
}

int moved_layers(const StrategySettings& s, int layers) {
  if (s.offload != Offload::activations && s.offload != Offload::all) return 0;
  return s.offload_layers > 0 ? std::min(s.offload_layers, layers) : std::max(0, layers - 1);
}

Bytes least_memory(const StrategySettings& s, const StageState& stage, const WholeBeside& beside) {
  const StateShards shards = state_shards(s, stage.experts);
  const Bytes divided = state_on_device(s, stage.experts, stage.weights, stage.gradients, stage.optimizer);
  Bytes most = divided + stage.activations;
  Bytes whole;
  if (shards.weights_stay && beside.weights > 0) {
    whole = stage.weights;
    most = max(most, divided + whole + stage.activations * beside.weights);
  }
  if (shards.gradients_stay && beside.gradients > 0)
    most = max(most, divided + whole + stage.gradients + stage.activations * beside.gradients);
  const MemoryRule rule;
  return most * (kMemoryMargin * rule.reserved_over_allocated) + rule.context;
}

}  // namespace rehearse
