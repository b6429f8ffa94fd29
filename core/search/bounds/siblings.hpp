#pragma once
// Small plans that divide layers and samples as a larger one does, on some of its devices. Inside core/search only.

#include <cstdint>
#include <functional>
#include <vector>

#include "core/model/network.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse {

/// One replica or as many as experts need, nothing sharded or moved; with the stages of `settings`.
[[nodiscard]] StrategySettings alone(StrategySettings settings);

/// Distance on the devices between neighbours along each axis: what is before it in the plan's order. 0 where there are
/// no neighbours.
struct Strides {
  std::int64_t tp = 0, cp = 0, dp = 0, pp = 0;
};
[[nodiscard]] Strides strides_of(const StrategySettings& settings);

/// The devices on which a plan with these distances has those of its ranks that `sibling`, which alone() gave, keeps.
[[nodiscard]] std::vector<int> devices_of(const StrategySettings& sibling, const Strides& strides);

/// Of the parameters of a stage at an end of the pipeline, those of its layers.
[[nodiscard]] double share_of_layers(const Network& network, int stages);

/// With change(repeat) of each kind of layer, but one at least.
[[nodiscard]] Workload with_layers(Workload workload, const std::function<int(int)>& change);

}  // namespace rehearse
