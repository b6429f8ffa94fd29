#pragma once
// A step of many microbatches from two of few. Once a pipeline is full (after one round, two where stages hold several
// chunks) each further round takes as long as the one before it, and holds nothing more. So the step of `far`
// microbatches, and what that one adds to the step of `near`, give every longer one:
//
//   step(m) = step(far) + (m - far) / (far - near) (step(far) - step(near)).

#include <optional>

#include "core/config/settings/forward.hpp"
#include "core/estimate/estimate.hpp"
#include "core/strategy/lower.hpp"

namespace rehearse {

/// Microbatches of the two short steps; near < far < those of the whole step. The near one needs as much memory as the
/// whole one, to a part in a hundred thousand: what is held for a moment may stand beside another pass.
struct ShortSteps {
  int near = 0, far = 0, all = 0;
};

/// Nothing where the step is hardly longer, where stages hold more with more microbatches, or where microbatches are
/// not alike: first ones that leave work to the drain, shares by speed, modelled input.
[[nodiscard]] std::optional<ShortSteps> short_steps(const Workload& workload, const StrategySettings& settings);

/// The step of `s.all` microbatches. `lowered` has `s.near`, and has `s.far` afterwards. `steps` as in estimate().
[[nodiscard]] Estimate long_step(const ShortSteps& s, StepLowering& lowered, const CostModel& cost, int steps);

}  // namespace rehearse
