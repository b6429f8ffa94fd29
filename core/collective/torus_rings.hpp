#pragma once
// Reductions and gathers on a torus whose chips have routers of their own: rings along each dimension, both ways round,
// no NCCL.
//
// A group that fills a box of D sides longer than one divides its buffer S into D equal parts. Part r is
// reduce-scattered along side r, then along side r + 1, and so on round; gathers go the other way. All sides are busy
// at once, each with another part (N. Jain and Y. Sabharwal, Optimal bucket algorithms for large MPI collectives on
// torus interconnects, ICS 2010; C. Ying et al. 2018, arXiv:1811.06992, do it with two dimensions). With n_d ranks and
// l_d rings along side d (two where the box closes the torus's ring, else one), links of rate b and neighbours a
// latency h apart:
//
//   phase (r, d)     bytes  s = S / D / (ranks along the sides before d),  time  s (n_d - 1) / n_d / (l_d b)
//   reduce-scatter   max over r of the sum of its phases, or over d of what its links carry; plus the sum over d of
//   (n_d - 1) h all-gather       the same;  all-reduce both;  broadcast and reduce cost what an all-reduce costs
//   (scatter and gather)
//
// On a closed torus of equal sides that is 2 S (N-1)/N / (2 D b): every link of every chip is full.

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "core/cluster/cluster.hpp"
#include "core/collective/collective.hpp"

namespace rehearse {

/// A group on a torus as a box: ranks at every `stride`-th coordinate along each side.
struct TorusBox {
  struct Side {
    std::size_t dimension = 0;  ///< 0 x, 1 y, 2 z.
    std::vector<int> at;        ///< Coordinates, ascending; more than one.
    int rings = 1;              ///< 2: the ring closes, and both ways round lead over links of their own.
  };
  std::vector<Side> sides;  ///< At least one.
  std::array<int, 3> origin{};
  std::array<int, 3> size{};  ///< Of the torus.
  BytesPerSecond link;        ///< To one neighbour, one direction.
  Seconds hop;                ///< From a rank to the next along the side where that takes longest.
};

/// The box that `group` fills. Nothing where the network's chips do not reduce (NetworkCollectives::torus), nodes hold
/// several devices, or the group is no box of even strides.
[[nodiscard]] std::optional<TorusBox> torus_box(const Cluster& cluster, std::span<const DeviceId> group);

/// Price by the formulas above. `op` is none of the point-to-point ones.
[[nodiscard]] CollectiveChoice torus_choice(const TorusBox& box, CollectiveOp op, Bytes bytes);
/// What flows between neighbours.
[[nodiscard]] std::vector<FluidEdge> torus_edges(const TorusBox& box, CollectiveOp op, Bytes bytes);

}  // namespace rehearse
