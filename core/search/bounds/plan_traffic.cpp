#include "core/search/bounds/plan_traffic.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/config/settings/strategy.hpp"
#include "core/price/host_copies.hpp"
#include "core/search/bounds/least_memory.hpp"
#include "core/strategy/roles/roles.hpp"
#include "core/strategy/state_shards.hpp"

namespace rehearse {

Seconds PlanTraffic::of_call(CollectiveOp op, const StrategySettings& s, Bytes bytes) {
  const int shards = s.fsdp.enabled ? s.dp_shard : s.dp;
  int stride = 1;
  for (const std::string& axis : s.placement) {
    if (axis == "dp") break;
    stride *= axis == "tp" ? s.tp : axis == "pp" ? s.pp : axis == "cp" ? s.cp : 1;
  }
  if (s.cp > 1 || shards == 1 || bytes <= Bytes{0} || (shards - 1) * stride >= problem_.cluster.device_count())
    return {};
  const auto step = static_cast<int>(std::floor(kStepsPerDoubling * std::log2(bytes.value())));
  const std::tuple key(op, shards, stride, step);
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = known_.find(key); at != known_.end()) return at->second;
  }
  std::vector<DeviceId> group;
  for (int i = 0; i < shards; ++i) group.push_back(i * stride);
  const Seconds time = problem_.cost.collectives().choose(op, Bytes{std::exp2(step / kStepsPerDoubling)}, group).time;
  const std::lock_guard lock(mutex_);
  return known_.emplace(key, time).first->second;
}

/// Larger calls are no slower for each byte.
Seconds PlanTraffic::in_calls(CollectiveOp op, const StrategySettings& s, Bytes bytes, Bytes largest) {
  const Bytes call = min(bytes, largest);
  return call > Bytes{0} ? of_call(op, s, call) * (bytes / call) : Seconds{};
}

Seconds PlanTraffic::over_replicas(const StrategySettings& s, Bytes weights, Bytes gradients, double part) {
  const StateShards shards = state_shards(s, experts_);
  Seconds out;
  if (experts_) return out;  // Theirs go over other ranks.
  if (shards.weights > 1 && !shards.weights_stay)
    out += in_calls(CollectiveOp::all_gather, s, weights, weights * part) * 2;
  if (shards.gradients > 1 && !shards.gradients_stay)
    out += in_calls(CollectiveOp::reduce_scatter, s, gradients, gradients * part + s.bucket);
  return out * kTrafficMargin;
}

Seconds PlanTraffic::waits_of_passes(const StrategySettings& s, Bytes weights, Bytes gradients,
                                     const LayerPasses& layer, int layers_of_chunk) const {
  const StateShards shards = state_shards(s, experts_);
  const auto on_device = [&](Bytes read, Bytes written) {
    return written > Bytes{0} ? problem_.cost.copy_of_whole(read, written, 0) * kCopyMargin : Seconds{};
  };
  const Bytes whole = layer.closed && shards.weights > 1 ? weights : Bytes{},
              summed = layer.closed && shards.gradients > 1 ? gradients : Bytes{};
  const Seconds forward = on_device(whole, whole), backward = on_device(whole + summed * 0.5, whole + summed);
  Seconds out = (forward + backward) * layers_of_chunk;
  if (const int moved = moved_layers(s, layers_of_chunk); moved > 0)
    out += waits_for_moves(layer.kept, layer.forward + forward, layer.backward + backward).of(moved);
  return out * s.virtual_stages;
}

Seconds PlanTraffic::copy(Bytes bytes, bool to_host) const {
  return bytes * kCopyMargin / copy_rate(problem_.cluster, paths_, 0, !to_host);
}

MoveWaits PlanTraffic::waits_for_moves(Bytes kept, Seconds forward, Seconds backward) const {
  const Seconds out = max(Seconds{0}, copy(kept, true) - forward), back = max(Seconds{0}, copy(kept, false) - backward);
  return {out + back, max(out, back)};
}

Seconds PlanTraffic::update_on_host(const StrategySettings& s, Bytes weights, Bytes gradients, Bytes optimizer) const {
  const StateShards shards = state_shards(s, experts_);
  if (shards.optimizer_on_device) return {};
  return problem_.cost.update_on_host((weights + gradients + optimizer * 2) * (kCopyMargin / shards.optimizer), 0);
}

}  // namespace rehearse
