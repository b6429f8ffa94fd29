#pragma once
// What a lesson draws and says of plans that are fleets. Private to this folder.

#include <array>
#include <string>
#include <vector>

#include "core/lesson/bars.hpp"
#include "core/lesson/figures.hpp"

namespace rehearse {

/// Parts of a bar of GPU-hours, in the order of hours_bar().
inline constexpr std::array<BarPart, 9> kHoursParts{{{'#', "useful work"},
                                                     {'x', "work done again"},
                                                     {'r', "restarts"},
                                                     {'d', "nodes away"},
                                                     {'q', "free: quota"},
                                                     {'f', "free: fragments"},
                                                     {'k', "free: kept for others"},
                                                     {'b', "free: too few for the job"},
                                                     {'.', "free: nobody waited"}}};

/// "32 GPUs, arrival order, rule easy, quota hard, placement best_fit".
[[nodiscard]] std::string fleet_summary(const FleetAnswer& answer);
/// A row for each plan: waiting, completion, share of the GPUs held, preemptions, and when all jobs had ended.
[[nodiscard]] Table fleet_table(const std::vector<LessonAnswer>& answers);
[[nodiscard]] Bar hours_bar(const LessonAnswer& answer);
/// For each plan a row of each node, with the letter of the queue that holds most of it, and a row of how many jobs of
/// each queue wait. Clusters of more than 16 nodes are drawn as their first 16.
[[nodiscard]] Picture draw_nodes(const std::string& title, const std::vector<const LessonAnswer*>& answers);

}  // namespace rehearse
