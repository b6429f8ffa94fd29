#pragma once
// Actors that provably behave alike are played as one: as many as there are kinds of them, not of ranks.
//
// Actors, communicators, channels of messages, flows and links are put into classes. The partition is *equitable*:
//   1. actors of a class run the same operations, at the same prices; their communicator for each Program group is of
//      one class, and so is the channel of each of their messages' ends;
//   2. communicators of a class have members of the same classes, in the same numbers, and every call on them costs the
//      same and has the same flows, class by class; channels of a class have ends of the same classes, at the same
//      places, and every message in them costs the same;
//   3. flows of a class move as many bytes at the same cap, and cross links of the same classes, as often;
//   4. links of a class have one rate, and are crossed by as many flows of each class, as often. Spare links
//   (wires.hpp)
//      hold back nobody and are in no class.
//
// Claim: all of a class begin and end together. By induction over events: until now they have.
//   - An operation starts when what it comes after has ended, which is the same for all of its class (1).
//   - A call starts with its last member, and a message with its second end: a maximum over the same classes (2).
//   - The flows under way are whole classes. Take the fair rates of a system with one flow for each class of flows and
//     one link for each class of links, where a flow weighs on a link what its class has on one link of that class (4).
//     Give every flow the rate of its class: each link carries what its class's one does, so no rate is exceeded; and
//     each flow has its demand or a bottleneck, as it crosses a link of the class that holds its class's one flow,
//     which is as full, and no flow on it is faster (3, 4). Max-min fair rates are the only ones of which that is true
//     (sim/link_loads.hpp), so these are the rates of all flows. Hence those of a class end together.
//   - A kernel is slowed by the communication beside it: calls and messages of its own actor (1, 2).
// So one actor, communicator, channel and flow of each class are played, the flow with its class's weights, and what
// crossed each link is added up over all flows afterwards.
//
// The partition is the coarsest that refines what can be told at once (operations, prices, rates): each round tells
// apart what had unlike neighbours in the round before, until no class falls apart. Equal neighbours are recognised by
// fingerprints of 128 bits (fingerprint.hpp).

#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "core/play/player/fingerprint.hpp"
#include "core/play/player/traffic_plan.hpp"
#include "core/play/player/wires.hpp"

namespace rehearse {

/// The flows of an exchange that are played for all of their classes.
struct StandIns {
  struct One {
    std::int32_t flow;  ///< Which of the exchange's.
    std::vector<PlayClock::Crossing> over;
  };
  std::vector<One> flows;
  /// Bytes of the largest flow, summed over what was started so far.
  mutable double carried = 0;
};

class Alike {
 public:
  /// `each` has every actor, at least one; all arguments must outlive the object.
  Alike(const Program& program, const Cluster& cluster, const TrafficPlanner& planner, Cast& each);
  ~Alike();
  Alike(const Alike&) = delete;
  Alike& operator=(const Alike&) = delete;

  /// Actors to play; as many as there were where no two are alike, or where it cannot be told.
  [[nodiscard]] std::size_t actors() const;
  [[nodiscard]] std::int32_t actor_of(std::int32_t actor) const;
  /// The cast with one actor, communicator and channel for each class: the first of it. For one with fewer actors;
  /// takes the compiled roles of `each`.
  [[nodiscard]] Cast take_cast();

  /// Of the folded cast: what plays for a call's flows, or a message's. Null where there are none.
  [[nodiscard]] const StandIns* collective(std::int32_t group, CollectiveOp op, double bytes,
                                           const CallOptions& options) const;
  [[nodiscard]] const StandIns* message(std::int32_t channel) const;
  /// The links that they cross.
  [[nodiscard]] std::vector<LinkId> links() const;
  /// Bytes on every link of the cluster, of what the stand-ins have carried and of all that they stood for.
  [[nodiscard]] std::vector<double> link_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rehearse
