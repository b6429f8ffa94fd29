#include "core/estimate/long_step.hpp"

#include <algorithm>
#include <array>

#include "core/base/index.hpp"
#include "core/config/settings/input.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/config/settings/training.hpp"
#include "core/estimate/quick/chunk_layout.hpp"
#include "core/estimate/walk/walk.hpp"
#include "core/schedule/schedule.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

/// Of so many rounds is the near step, the first that tells; a round is as many microbatches as there are stages.
/// Chunks that take turns on a stage need the second round to be full.
constexpr std::array kNearRounds{1, 2};
/// With one stage there is no pipeline to fill, but the first and the last microbatch are not as those between.
constexpr int kFewAlone = 1;

/// Whether both short steps can be lowered and already hold as much as the whole one.
bool tells(const ShortSteps& steps, const StrategySettings& s) {
  const Schedule& schedule = *schedules().at(s.schedule).value;
  const auto shape = [&](int microbatches) { return PipelineShape{s.pp, s.virtual_stages, microbatches}; };
  if (!runs(schedule, shape(steps.near)) || !runs(schedule, shape(steps.far))) return false;
  for (int stage = 0; stage < s.pp; ++stage)
    if (schedule.chunks_in_flight(stage, shape(steps.near)) != schedule.chunks_in_flight(stage, shape(steps.all)))
      return false;
  return true;
}

}  // namespace

std::optional<ShortSteps> short_steps(const Workload& workload, const StrategySettings& s) {
  if (s.data_parallel != DataParallelism::replicas || !s.batch_per_replica.empty() || !s.devices.empty() ||
      s.deferred_head_gradients > 0 || workload.input.sample > Bytes{0})
    return {};
  const std::int64_t each = s.microbatch * s.dp;
  if (each <= 0 || workload.training.global_batch % each != 0) return {};
  const auto all = static_cast<int>(workload.training.global_batch / each);
  for (const int rounds : kNearRounds) {
    if (rounds == 1 && s.virtual_stages > 1) continue;
    const int near = rounds * s.pp + (s.pp > 1 ? 0 : kFewAlone);
    const ShortSteps out{near, near + s.pp, all};
    if (out.all <= out.far) return {};
    if (tells(out, s)) return out;
  }
  return {};
}

Estimate long_step(const ShortSteps& s, StepLowering& lowered, const CostModel& cost, int steps) {
  StepWalk walk(lowered.program(), cost, steps);
  const Estimate near(walk());
  lowered.set_microbatches(s.far);
  const Estimate far(walk());
  Estimate out = far;
  const double more = static_cast<double>(s.all - s.far) / (s.far - s.near);
  out.step_time += (far.step_time - near.step_time) * more;
  for (std::size_t c = 0; c < out.breakdown.seconds.size(); ++c)
    out.breakdown.seconds[c] =
        max(Seconds{0}, far.breakdown.seconds[c] + (far.breakdown.seconds[c] - near.breakdown.seconds[c]) * more);
  out.breakdown *= out.step_time / out.breakdown.total();
  return out;
}

}  // namespace rehearse
