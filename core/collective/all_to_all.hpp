#pragma once
// All-to-all as few flows that load every link as all pairs do.
//
// n ranks have n (n - 1) pairs: too many flows. What counts is what each link carries, and most fabrics let that be
// said with a few flows per rank:
//
//   Claim. Let pairs be sorted into levels so that at level l the route from a to b is out(a, l) followed by in(b, l):
//   links that depend on one end only. Then the load of a link depends on the row sums (what a sends at level l) and
//   column sums (what b receives at level l) alone, whoever is paired with whom. For load(x) = sum over a, l of [x in
//   out(a, l)] row(a, l) + sum over b, l of [x in in(b, l)] column(b, l).
//
// So any flows with the same row and column sums, each between a pair of its level, load every NIC, trunk and NVSwitch
// link alike. The level of a pair is the length of its route; that routes split so is checked on every pair. It holds
// where switches form a tree of stages (one switch, fat trees, rails), not on a torus. The flows of a level: lay its
// senders and its receivers on two circles, each with an arc as long as its sum, nodes and leaves side by side, and
// turn one by half: at most two flows per rank and level. Where the halves don't pair as they must, or routes don't
// split, every pair is a flow.
//
// A message that changes rails in its node first (PXN) is two flows: to the GPU of the other rail, and on from there.

#include <optional>

#include "core/collective/collective.hpp"
#include "core/collective/group_layout.hpp"

namespace rehearse::traffic {

/// Up to this many ranks every pair is an edge, as the network would see it.
inline constexpr int kPairLimit = 64;
/// Up to this many ranks routes may be checked pair by pair, or, where they do not split, be edges.
inline constexpr int kCheckLimit = 8192;
inline constexpr int kAllPairsLimit = 1024;

/// Each rank sends `bytes` in all, an equal part to each (its own part stays). Throws Error (unavailable) above
/// `kAllPairsLimit` ranks where fewer flows would not do, and above `kCheckLimit` anyway.
[[nodiscard]] std::vector<FluidEdge> all_to_all(const Cluster& cluster, const GroupLayout& g, Bytes bytes);

/// Every pair.
[[nodiscard]] std::vector<FluidEdge> all_pairs(const GroupLayout& g, Bytes bytes);
/// Fewer edges with the loads of all pairs, by the claim above; nothing where it does not hold.
[[nodiscard]] std::optional<std::vector<FluidEdge>> few_for_all_pairs(const Cluster& cluster, const GroupLayout& g,
                                                                      Bytes bytes);

}  // namespace rehearse::traffic
