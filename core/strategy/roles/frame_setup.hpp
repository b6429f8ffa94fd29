#pragma once
// What a Program has before its blocks: the order of ranks in the mesh, streams, types of numbers.

#include <vector>

#include "core/schedule/schedule.hpp"
#include "core/strategy/bodies/body_builder.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse {

/// Axes from the nearest neighbours outwards: `placement`, with tiles it does not name before it and the axes left over
/// behind.
[[nodiscard]] std::vector<AxisExtent> mesh_order(const StrategySettings& s);
/// Adds the streams of every rank to the program. `microbatches`: of the first replica.
void make_streams(ProgramFrame& frame, const StrategySettings& settings, const Schedule& schedule, int microbatches);
/// Types in which `workload` keeps and multiplies.
void set_types(ProgramFrame& frame, const Workload& workload);

}  // namespace rehearse
