#pragma once
// What a page draws of a fleet over time.

#include <string>
#include <vector>

#include "core/report/fleet/fleet_report.hpp"

namespace rehearse {

/// For each fleet: {"begin_s", "bin_s", "queues[]", "rows[{name, gpus, cells[]}]", "courses[{queue, points[]}]"}.
///
/// A row is a node, or several in order where there are more than a page has room for. `cells` holds triples (bin,
/// index into `queues`, GPUs held on average over the bin), by bin. A course is what a queue held and asked beside at
/// the middle of each bin: `points` holds pairs, one for each bin, means over it.
[[nodiscard]] std::string timelines_json(const std::vector<PlayedFleet>& fleets);

}  // namespace rehearse
