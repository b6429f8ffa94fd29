#pragma once
// Collectives and messages of a run, each kind of call priced and laid on the wires once, however often it is made.

#include <list>
#include <map>
#include <tuple>
#include <vector>

#include "core/play/clocks/play_clock.hpp"
#include "core/play/player/actors.hpp"

namespace rehearse {

class TrafficBook {
 public:
  /// What happens when all partners are there: `bundle` moves, if there is one, and the call ends `latency` after it.
  struct Call {
    double latency = 0;  ///< Of a call without flows: all of its time.
    double wait = 0;     ///< After that, with no load on kernels: the hosts of a blocking message.
    PlayClock::BundleId bundle = 0;
    int flows = 0;         ///< Of one lane; 0: a timer.
    Interference load;     ///< On the kernels beside it, at every partner.
    double narrowest = 0;  ///< Messages: rate of the slowest link of the route; for the audit.
  };

  TrafficBook(const Program& program, const Cluster& cluster, const CostModel& cost, const RunOptions& options,
              const Cast& cast, PlayClock& clock);

  /// A collective of group `group` of the cast. Inside one node, where the wires are the group's own, it is a timer,
  /// and so is one that spends almost all of its time in latency; with RunOptions::all_flows only what moves nothing
  /// is.
  const Call& collective(std::int32_t group, CollectiveOp op, double bytes, const CallOptions& options);
  const Call& message(std::int32_t channel, double bytes);

 private:
  [[nodiscard]] Call make_collective(const Cast::Group& group, CollectiveOp op, double bytes,
                                     const CallOptions& options);
  [[nodiscard]] Call make_message(const Cast::Channel& channel, double bytes);
  [[nodiscard]] bool in_one_node(const Cast::Group& group) const;

  const Program& p_;
  const Cluster& cluster_;
  const CostModel& cost_;
  const RunOptions& options_;
  const Cast& cast_;
  PlayClock& clock_;
  std::map<std::tuple<std::int32_t, CollectiveOp, double, CallOptions>, Call> collectives_;
  struct Sized {
    double bytes;
    Call call;
  };
  std::vector<std::list<Sized>> messages_;  // By channel; one size each, as a rule.
};

}  // namespace rehearse
