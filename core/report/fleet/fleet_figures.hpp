#pragma once
// Figures of a fleet that was played.

#include <string>
#include <vector>

#include "core/report/fleet/fleet_report.hpp"

namespace rehearse::fleet_report {

/// How long the jobs of one queue (or all) waited.
struct Waits {
  std::size_t jobs = 0, done = 0, waiting = 0;
  Seconds mean{}, p50{}, p90{}, most{}, completion{};  ///< `completion`: mean from arrival to end, of those that ended.
  int preemptions = 0;
};
/// Of the queue's own jobs; an empty name means all.
[[nodiscard]] Waits waits_of(const PlayedFleet& p, const std::string& queue);

/// Jain's index of (GPU-seconds held over asked) of the queues that asked: 1 where all got the same part of what they
/// asked for, 1/n where one got all. R. Jain et al., DEC-TR-301, 1984.
[[nodiscard]] double fairness(const PlayedFleet& p);

/// "1.5 h", "3 min", "2.1 d".
[[nodiscard]] std::string time_text(Seconds t);

}  // namespace rehearse::fleet_report
