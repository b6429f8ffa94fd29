#pragma once
// Schedules that siblings have in the place of a plan's own: passes of the same kinds in a shape that they run.

#include <functional>
#include <optional>
#include <string>

#include "core/schedule/schedule.hpp"

namespace rehearse {

struct Stand {
  std::string name;
  const Schedule* schedule;
  int microbatches;
};

/// The first registered schedule of which `suits` holds and that runs so many stages and chunks, with as few
/// microbatches as it takes but no fewer than `least`.
[[nodiscard]] std::optional<Stand> stand_in(const std::function<bool(const Schedule&)>& suits, int stages, int chunks,
                                            int least);

/// Whether passes of `schedule` come in pairs on so many stages.
[[nodiscard]] inline bool pairs_passes(const Schedule& schedule, int stages) { return stages > 1 && schedule.pairs(); }

}  // namespace rehearse
