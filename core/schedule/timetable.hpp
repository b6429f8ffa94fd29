#pragma once
// When each pass of a schedule runs, as textbooks draw it: passes of given lengths, messages that take no time.
//
//   const auto passes = timetable(*schedules().at("1f1b").value, {.stages = 4, .microbatches = 8}, {1, 1, 1});
//   passes.back().end  // of the last pass of the last stage

#include <vector>

#include "core/schedule/schedule.hpp"

namespace rehearse {

/// Begin and end in the unit of the PassTimes. Slots that run interleaved begin and end together.
struct TimedSlot {
  Slot slot;
  int stage = 0;
  double begin = 0, end = 0;
};

/// Stage after stage, the slots of each in their order. A pass begins as soon as its stage is free and what it needs is
/// there: the forward pass of the chunk before it, or the backward pass of the chunk behind it. Throws what
/// Schedule::check throws.
[[nodiscard]] std::vector<TimedSlot> timetable(const Schedule& schedule, const PipelineShape& shape,
                                               const PassTimes& times);

}  // namespace rehearse
