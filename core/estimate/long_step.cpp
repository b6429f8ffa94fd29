#include "core/estimate/long_step.hpp"

#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/config/settings/input.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/config/settings/training.hpp"
#include "core/schedule/schedule.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

/// With one stage there is no pipeline to fill; passes overlap with those beside them only.
constexpr int kNearAlone = 3, kFarAlone = 4;
/// Rounds of as many microbatches as there are stages.
constexpr int kNearRounds = 2, kFarRounds = 3;

bool runs(const Schedule& schedule, const PipelineShape& shape) {
  try {
    schedule.check(shape);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::optional<ShortSteps> short_steps(const Workload& workload, const StrategySettings& s) {
  if (s.data_parallel != DataParallelism::replicas || !s.batch_per_replica.empty() || !s.devices.empty() ||
      s.deferred_head_gradients > 0 || workload.input.sample > Bytes{0})
    return {};
  const std::int64_t each = s.microbatch * s.dp;
  if (each <= 0 || workload.training.global_batch % each != 0) return {};
  ShortSteps out{kNearAlone, kFarAlone, static_cast<int>(workload.training.global_batch / each)};
  if (s.pp > 1) {
    out.near = kNearRounds * s.pp;
    out.far = kFarRounds * s.pp;
  }
  if (out.all <= out.far) return {};
  const Schedule& schedule = *schedules().at(s.schedule).value;
  const auto shape = [&](int microbatches) { return PipelineShape{s.pp, s.virtual_stages, microbatches}; };
  if (!runs(schedule, shape(out.near)) || !runs(schedule, shape(out.far))) return {};
  for (int stage = 0; stage < s.pp; ++stage)
    if (schedule.chunks_in_flight(stage, shape(out.far)) != schedule.chunks_in_flight(stage, shape(out.all))) return {};
  return out;
}

Estimate long_step(const ShortSteps& s, const Estimate& near, const Estimate& far) {
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
