#pragma once
// Collectives and messages of a run, each kind of call priced and laid on the wires once, however often it is made.

#include <list>
#include <map>
#include <tuple>
#include <vector>

#include "core/play/clocks/play_clock.hpp"
#include "core/play/player/alike.hpp"
#include "core/play/player/traffic_plan.hpp"

namespace rehearse {

class TrafficBook {
 public:
  /// What happens when all partners are there: `bundle` moves, if there is one, and the call ends `latency` after it.
  struct Call {
    double latency = 0;  ///< Of a call without flows: all of its time.
    double wait = 0;     ///< After that, with no load on kernels: the hosts of a blocking message.
    PlayClock::BundleId bundle = 0;
    int flows = 0;         ///< Of one lane, and of one of all that are alike; 0: a timer.
    Interference load;     ///< On the kernels beside it, at every partner.
    double narrowest = 0;  ///< Messages: rate of the slowest link of the route; for the audit.
    const StandIns* stand_ins = nullptr;
    double most = 0;  ///< Bytes of the largest flow.
  };

  /// `alike`: what folded the cast; null where nothing did. All arguments must outlive the book.
  TrafficBook(const TrafficPlanner& planner, const Cast& cast, const Alike* alike, PlayClock& clock);

  /// A collective of group `group` of the cast.
  const Call& collective(std::int32_t group, CollectiveOp op, double bytes, const CallOptions& options);
  const Call& message(std::int32_t channel, double bytes);
  /// Starts the flows of a call that has some.
  void start(const Call& call, PlayClock::Token token);
  /// Bytes on every link of all that was started, which must have ended.
  [[nodiscard]] std::vector<double> link_bytes() const;

 private:
  [[nodiscard]] Call lay_out(PlannedTraffic planned, const StandIns* stand_ins, int lanes);

  const TrafficPlanner& planner_;
  const Cast& cast_;
  const Alike* alike_;
  PlayClock& clock_;
  std::map<std::tuple<std::int32_t, CollectiveOp, double, CallOptions>, Call> collectives_;
  struct Sized {
    double bytes;
    Call call;
  };
  std::vector<std::list<Sized>> messages_;  // By channel; one size each, as a rule.
};

}  // namespace rehearse
