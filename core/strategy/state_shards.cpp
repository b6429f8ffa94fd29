#include "core/strategy/state_shards.hpp"

#include <algorithm>

namespace rehearse {

StateShards state_shards(const StrategySettings& s) {
  const double replicas = std::max(s.dp * s.cp, s.dp * s.cp * s.tp / (s.ep * s.etp));
  const double shards = s.fsdp.enabled ? static_cast<double>(s.dp_shard) * s.cp : replicas;
  const int stage = s.fsdp.enabled ? 3 : s.zero_stage;
  return {stage >= 3 ? shards : 1, stage >= 2 ? shards : 1, stage >= 1 ? shards : 1, s.offload == Offload::none || s.offload == Offload::activations};
}

Bytes state_on_device(const StrategySettings& settings, Bytes weights, Bytes gradients, Bytes optimizer) {
  const StateShards shards = state_shards(settings);
  const Bytes held = weights / shards.weights + gradients / shards.gradients;
  return shards.optimizer_on_device ? held + optimizer / shards.optimizer : held;
}

}  // namespace rehearse
