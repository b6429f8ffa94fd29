#pragma once
// The ranks of a job as a mesh with named axes, in two views of the same ranks.
//
//   dense view:   dp_replicate * dp_shard * cp * tp * pp * tile_h * tile_w = ranks
//   expert view:  etp * ep * edp = dp_replicate * dp_shard * cp * tp  per stage (the expert view re-divides a stage's
//   ranks)
//
// A mixed cluster is a list of islands: rectangles of ranks with axes of their own, joined along dp or pp.
// A rank is one device. Rank numbers are global: island by island, within an island by placement order.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/program/expr.hpp"

namespace rehearse {

enum class View : std::uint8_t { dense, expert };

struct AxisExtent {
  Axis axis;
  int extent;
};

/// One rectangle of ranks. `order` lists the dense axes from fastest to slowest varying; axes not named have extent 1.
struct Island {
  int first_rank = 0;
  std::vector<AxisExtent> order;
  /// etp, ep, edp, pp from fastest to slowest; empty when there are no experts.
  std::vector<AxisExtent> expert_order;
  /// Coordinates on the mesh's join axis continue from island to island: this island's start here, out of `join_total`
  /// (0: own extent).
  int join_first = 0, join_total = 0;
  [[nodiscard]] int ranks() const;
  [[nodiscard]] int extent(Axis axis) const;
  /// Coordinates of one axis as functions of the rank: (rank / stride) % extent, `rank` within the island.
  struct Wheel {
    int stride = 1, extent = 1;
    [[nodiscard]] int at(int rank) const { return rank / stride % extent; }
    bool operator==(const Wheel&) const = default;
  };
  /// Of an axis of either view; an axis that neither names has the one coordinate 0.
  [[nodiscard]] Wheel wheel(Axis axis) const;
};

/// How islands are joined; only with more than one island.
enum class Join : std::uint8_t { none, dp, pp };

/// A set of axes; a group is the ranks that differ only along them.
class AxisSet {
 public:
  constexpr AxisSet() = default;
  constexpr AxisSet(std::initializer_list<Axis> axes) {
    for (Axis a : axes) bits_ |= bit(a);
  }
  [[nodiscard]] constexpr bool contains(Axis a) const { return (bits_ & bit(a)) != 0; }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  constexpr void insert(Axis a) { bits_ |= bit(a); }
  /// With the axes of ExprPool::coordinates().
  constexpr void insert_all(std::uint32_t bits) { bits_ |= static_cast<std::uint16_t>(bits); }
  [[nodiscard]] constexpr std::uint16_t bits() const { return bits_; }
  auto operator<=>(const AxisSet&) const = default;

 private:
  static constexpr std::uint16_t bit(Axis a) { return static_cast<std::uint16_t>(1u << static_cast<unsigned>(a)); }
  std::uint16_t bits_ = 0;
};

/// A family of communicators: for each rank, the group of ranks that differ from it along `axes` only. With `only`, the
/// members are further restricted to coordinates listed per axis (the first and last stage for tied embeddings); a rank
/// outside is in no group. Members also have equal values of `color` (node-limited routing, mirrored stages). With
/// `across_islands`, members of all islands that agree on the axes outside the group belong to it, and the join axis is
/// one of the group's.
struct GroupSpec {
  std::string name;  ///< "tp", "dp", "embedding"
  View view = View::dense;
  AxisSet axes;
  std::vector<std::pair<Axis, std::vector<int>>> only;
  ExprId color = ExprPool::kZero;
  bool across_islands = false;
  bool operator==(const GroupSpec&) const = default;
};

class Mesh {
 public:
  Mesh() = default;
  /// Throws std::invalid_argument when ranges overlap, or when an expert view covers another number of ranks than its
  /// island.
  Mesh(std::vector<Island> islands, Join join);

  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] const std::vector<Island>& islands() const { return islands_; }
  [[nodiscard]] Join join() const { return join_; }
  [[nodiscard]] int island_of(int rank) const;
  /// Coordinates on all ten axes (dense and expert) and the extents of the rank's island.
  [[nodiscard]] ExprContext context(int rank) const;
  /// The rank of `island` at dense coordinates.
  [[nodiscard]] int rank_at(int island, const std::array<std::int32_t, kAxisCount>& coord) const;
  /// Members of `rank`'s group in ascending coordinate order; empty when `rank` is in none. `exprs` evaluates `color`.
  [[nodiscard]] std::vector<int> members(const GroupSpec& group, int rank, const ExprPool& exprs) const;
  [[nodiscard]] int group_size(const GroupSpec& group, int rank, const ExprPool& exprs) const;

 private:
  std::vector<Island> islands_;
  Join join_ = Join::none;
  int ranks_ = 0;
};

}  // namespace rehearse
