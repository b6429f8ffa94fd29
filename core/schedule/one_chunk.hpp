#pragma once
// The refusal that schedules of one chunk per stage share.

#include <string>

#include "core/schedule/schedule.hpp"

namespace rehearse {

/// Throws Error (usage) where a stage is given several chunks; `name` is the schedule's.
void check_one_chunk(const std::string& name, const PipelineShape& shape);

}  // namespace rehearse
