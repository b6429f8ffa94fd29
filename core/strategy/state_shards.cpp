#include "core/strategy/state_shards.hpp"

#include <algorithm>

#include "core/config/settings/strategy.hpp"
#include "core/strategy/roles/roles.hpp"
#include "core/strategy/roles/unit_plan.hpp"
#include "core/strategy/roles/update_in_backward.hpp"
#include "core/strategy/strategies/offload_parameters.hpp"

namespace rehearse {

StateShards state_shards(const StrategySettings& s, bool experts) {
  const int copies_of_experts = experts ? s.dp * s.cp * s.tp / (s.ep * s.etp) : 1;
  const double shards = std::max(copies_of_experts, (s.fsdp.enabled ? s.dp_shard : s.dp) * s.cp);
  const int stage = s.fsdp.enabled ? 3 : s.zero_stage;
  StateShards out{stage >= 3 ? shards : 1, stage >= 2 ? shards : 1, stage >= 1 ? shards : 1};
  out.optimizer_on_device = s.offload == Offload::none || s.offload == Offload::activations;
  out.slices_of_weights = (!s.fsdp.enabled || !out.optimizer_on_device) && !offloads_parameters(s);
  // They go to the host as they come, at least where a step is one microbatch, or to the update.
  out.gradients_persist = !updates_in_backward(s) && !drops_gradients(s) && (out.optimizer_on_device || stage < 2);
  out.weights_stay =
      s.fsdp.enabled && !reshards(s.fsdp.reshard_after_forward, s) && !reshards(s.fsdp.reshard_after_backward, s);
  out.gradients_stay = s.fsdp.enabled && !syncs_every_microbatch(s, true);
  return out;
}

Bytes state_on_device(const StrategySettings& settings, bool experts, Bytes weights, Bytes gradients, Bytes optimizer) {
  const StateShards shards = state_shards(settings, experts);
  const Bytes held = (shards.slices_of_weights ? weights / shards.weights : Bytes{}) +
                     (shards.gradients_persist ? gradients / shards.gradients : Bytes{});
  return shards.optimizer_on_device ? held + optimizer / shards.optimizer : held;
}

}  // namespace rehearse
