#pragma once
// Every flow that a run can start, and the links that it crosses: what ranks must agree in to be played as one.
//
// A link is *spare* where it can carry all that its neighbours on the flows' ways bring to it: the links before it, or
// the links after it, have no more than its own rate in sum. Spare links hold back no flow, so they need not be looked
// at: while the others' rates are respected so is theirs, and rates that are max-min fair without them are so with them
// (each flow still has its demand or a bottleneck). Links are taken in order of their rates, fastest first, and only
// neighbours that have not been found spare before count; so each is held by links that are left or found later, and
// those by links that are left in the end. In a fabric of full bisection all switches' links are spare, and which
// switch a node hangs on tells it from no other.

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/index.hpp"
#include "core/play/clocks/lane_routes.hpp"

namespace rehearse {

class Wires {
 public:
  using Index = std::int32_t;

  /// A link, by its place in links(), and how many lanes of the flow cross it.
  struct Crossing {
    Index link;
    std::int32_t weight;
  };
  /// One flow of each of its lanes. `share`: of the bytes of the exchange's largest flow.
  struct Flow {
    std::uint32_t first, count;  ///< Of its crossings.
    double share;
  };
  /// Flows that start together, in the order in which they were added.
  struct Exchange {
    std::uint32_t first, count;
  };

  explicit Wires(const Cluster& cluster) : cluster_(cluster), routes_(cluster) {}

  /// Adds `flows`, none empty, as an exchange. False where one has no route, or lanes that cannot be played as one
  /// (lane_routes.hpp).
  bool add(std::span<const PlayClock::Flow> flows, int lanes, int lane_stride);
  /// Finds the spare links, once all exchanges are there.
  void find_spare();

  [[nodiscard]] const std::vector<Exchange>& exchanges() const { return exchanges_; }
  [[nodiscard]] const std::vector<Flow>& flows() const { return flows_; }
  [[nodiscard]] std::span<const Crossing> crossings(const Flow& flow) const {
    return {crossings_.data() + flow.first, flow.count};
  }
  /// That flows cross.
  [[nodiscard]] const std::vector<LinkId>& links() const { return links_; }
  [[nodiscard]] bool spare(Index link) const { return nth(ways_, link).spare; }

 private:
  /// The links before and behind one on the flows' ways.
  struct Ways {
    std::vector<Index> before, after;
    bool begins = false, ends = false;  ///< A flow's first or last link.
    bool spare = false;
  };

  Index index_of(LinkId link);
  void add_way(std::span<const LinkId> links);
  [[nodiscard]] bool held_by(Index link, const std::vector<Index>& neighbours) const;

  const Cluster& cluster_;
  LaneRoutes routes_;
  std::vector<Exchange> exchanges_;
  std::vector<Flow> flows_;
  std::vector<Crossing> crossings_;
  std::vector<LinkId> links_;
  std::vector<Ways> ways_;       // By place in links_.
  std::vector<Index> index_of_;  // By LinkId; -1: not crossed yet.
};

}  // namespace rehearse
