#pragma once
// What the flows under way ask of each link, and hence which of them can't be in each other's way.
//
// The demand of a flow is the rate it would have alone: min(cap, rate of a link / times the flow crosses it, over its
// links). Every flow under way is booked, with its demand, on its links. A link is overloaded while more than its rate
// is booked on it. A flow is free while it crosses no overloaded link; the rates of the others are for a solver to
// find.
//
// Claim: under max-min fairness a free flow runs at its demand, and the others at the rates which a solver finds that
// knows of them only, on all of their links.
//   1. Max-min fair rates are the only ones that respect all links and demands and give each flow either its demand or
//   a bottleneck:
//      a full link that it crosses and on which no flow has a higher rate [Bertsekas and Gallager, Data
//      Networks, 6.5.2]. (A demand bounds a flow no more than its cap and links do already, so stating it changes no
//      rate.)
//   2. A bottleneck of a flow below its demand is overloaded: the rates on it add up to the link's rate, one of them is
//   below the
//      demand, none is above, so the demands add up to more.
//   3. So a free flow has no bottleneck, and runs at its demand.
//   4. By 2, the rates stay max-min fair when all links that are not overloaded are taken away, and are so with them by
//   1; with these
//      gone, free flows touch no link, and on each overloaded link are exactly the others. Rates of the others depend
//      on the others only.
//   5. The solver sees links that are not overloaded, too, some of them shared with free flows it does not know of.
//   There the demands
//      of its own flows add up to no more than the link's rate: such a link holds back nobody, by 2 in the solver's own
//      problem, and what it grants leaves room for the free flows, whose demands are booked on the link beside those of
//      its own.
// A booked demand that nobody uses can't do harm either: a solver's flow in whose links nothing is overloaded any
// longer runs at its demand (2, again), and may stay where it is. So flows move from free to solved, never back, and
// only when a newcomer overloads a link.
//
// Demands are counted as whole parts of 2^-42 of a link's rate. Sums are exact, whatever the order and number of flows,
// so they return to zero; 2^21 flows at full demand fit a link. A link counts as overloaded above 1 + 2^-32 of its
// rate, so that demands which add up to the rate but for rounding don't overload it: less than the solver's own
// precision (simgrid_facade.hpp).

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/index.hpp"
#include "core/cluster/cluster.hpp"

namespace rehearse::sim {

/// Time and memory are proportional to the links a flow crosses.
class LinkLoads {
 public:
  /// Names a flow from book() to release(); the owner numbers them, densely from 0.
  using FlowId = std::uint32_t;

  /// What is asked of one link, in parts of its rate.
  struct Ask {
    LinkId link;
    std::int64_t parts;
  };

  explicit LinkLoads(const Cluster& cluster);

  /// What `demand` asks of `links`; one that stands w times in a row is crossed w times.
  [[nodiscard]] std::vector<Ask> asks(std::span<const LinkId> links, BytesPerSecond demand) const;
  /// Books `asks`, of one flow or of several that are to be one here: free together, or on an overloaded link together.
  /// `flow` is not free yet.
  void book(FlowId flow, std::span<const Ask> asks);
  void book(FlowId flow, std::span<const LinkId> links, BytesPerSecond demand) { book(flow, asks(links, demand)); }
  /// Whether a link of `flow` is overloaded.
  [[nodiscard]] bool overloaded(FlowId flow) const;
  /// `flow`, booked and on no overloaded link, runs at its demand from now on.
  void set_free(FlowId flow);
  /// `flow` is free no longer; what it booked stays.
  void set_solved(FlowId flow);
  /// Takes back what `flow` booked, if it did.
  void release(FlowId flow);

  /// Free flows on links that book() overloaded since forget_overloads() and that still are, by number: they must be
  /// released or set solved.
  [[nodiscard]] std::vector<FlowId> squeezed() const;
  void forget_overloads() { newly_overloaded_.clear(); }

 private:
  struct Place {
    FlowId flow;
    std::uint32_t hop;
  };
  struct Link {
    double rate;
    std::int64_t booked = 0;
    std::vector<Place> free;  // Flows, in no order.
  };
  struct Hop {
    LinkId link;
    std::int64_t booked;
    std::uint32_t at;  // Where in the link's list of free flows.
  };

  Link& link(LinkId id) { return nth(links_, id); }
  [[nodiscard]] const Link& link(LinkId id) const { return nth(links_, id); }

  std::vector<Link> links_;
  std::vector<std::vector<Hop>> hops_;  // By flow.
  std::vector<LinkId> newly_overloaded_;
};

}  // namespace rehearse::sim
