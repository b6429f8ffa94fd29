#pragma once
// A collective's flows on a clock, by themselves.

#include "core/collective/collective.hpp"
#include "core/play/clocks/play_clock.hpp"

namespace rehearse {

/// Starts every edge of `plan` now, each with its share of the rate cap, and runs the clock until all have ended.
/// Returns the time from now to the end of the call: the last flow's end, and the plan's latency. `clock` has nothing
/// else pending.
[[nodiscard]] Seconds play_plan(const FluidPlan& plan, PlayClock& clock);

}  // namespace rehearse
