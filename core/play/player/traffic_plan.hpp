#pragma once
// What a collective or a message is on the wires: its price, its load on the kernels beside it, and its flows.

#include <vector>

#include "core/play/clocks/play_clock.hpp"
#include "core/play/player/actors.hpp"

namespace rehearse {

struct PlannedTraffic {
  double latency = 0;                  ///< Seconds after the last flow; without flows: all of the call's time.
  double wait = 0;                     ///< After that, with no load on kernels: the hosts of a blocking message.
  Interference load;                   ///< On the kernels beside it, at every partner.
  double narrowest = 0;                ///< Messages: rate of the slowest link of the route; for the audit.
  std::vector<PlayClock::Flow> flows;  ///< Of one lane. None: a timer.
};

/// `program`, `cluster`, `cost` and `options` must outlive it.
class TrafficPlanner {
 public:
  TrafficPlanner(const Program& program, const Cluster& cluster, const CostModel& cost, const RunOptions& options)
      : p_(program), cluster_(cluster), cost_(cost), options_(options) {}

  /// A collective of `bytes` over `group`. Inside one node, where the wires are the group's own, it is a timer, and so
  /// is one that spends almost all of its time in latency; with RunOptions::all_flows only what moves nothing is.
  [[nodiscard]] PlannedTraffic collective(const Cast::Group& group, CollectiveOp op, double bytes,
                                          const CallOptions& call) const;
  [[nodiscard]] PlannedTraffic message(const Cast::Channel& channel, double bytes) const;

 private:
  [[nodiscard]] bool in_one_node(const Cast::Group& group) const;

  const Program& p_;
  const Cluster& cluster_;
  const CostModel& cost_;
  const RunOptions& options_;
};

}  // namespace rehearse
