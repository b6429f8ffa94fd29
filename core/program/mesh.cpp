#include "core/program/mesh.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "core/base/index.hpp"

namespace rehearse {

namespace {

constexpr std::size_t index_of(Axis a) { return static_cast<std::size_t>(a); }

int product(const std::vector<AxisExtent>& order) {
  int n = 1;
  for (const auto& [axis, extent] : order) {
    if (extent < 1) throw std::invalid_argument("axis extent below 1");
    n *= extent;
  }
  return n;
}

void decompose(const std::vector<AxisExtent>& order, int local, ExprContext& out) {
  for (const auto& [axis, extent] : order) {
    out.coord[index_of(axis)] = local % extent;
    out.extent[index_of(axis)] = extent;
    local /= extent;
  }
}

int compose(const std::vector<AxisExtent>& order, const std::array<std::int32_t, kAxisCount>& coord) {
  int local = 0, stride = 1;
  for (const auto& [axis, extent] : order) {
    local += coord[index_of(axis)] * stride;
    stride *= extent;
  }
  return local;
}

bool has(const std::vector<AxisExtent>& order, Axis axis) {
  return std::any_of(order.begin(), order.end(), [axis](const AxisExtent& e) { return e.axis == axis; });
}

Island::Wheel wheel_in(const std::vector<AxisExtent>& order, Axis axis) {
  int stride = 1;
  for (const auto& [a, n] : order) {
    if (a == axis) return n > 1 ? Island::Wheel{stride, n} : Island::Wheel{};
    stride *= n;
  }
  return {};
}

bool allowed(const GroupSpec& group, const ExprContext& at) {
  return std::all_of(group.only.begin(), group.only.end(), [&](const auto& rule) {
    const auto& [axis, coords] = rule;
    return std::find(coords.begin(), coords.end(), at.coord[index_of(axis)]) != coords.end();
  });
}

}  // namespace

int Island::ranks() const { return product(order); }

int Island::extent(Axis axis) const {
  for (const auto* list : {&order, &expert_order})
    for (const auto& [a, n] : *list)
      if (a == axis) return n;
  return 1;
}

Island::Wheel Island::wheel(Axis axis) const {
  return has(order, axis) ? wheel_in(order, axis) : wheel_in(expert_order, axis);
}

Mesh::Mesh(std::vector<Island> islands, Join join) : islands_(std::move(islands)), join_(join) {
  for (const Island& island : islands_) {
    if (island.first_rank != ranks_) throw std::invalid_argument("islands must be numbered one after the other");
    if (!island.expert_order.empty() && product(island.expert_order) != island.ranks())
      throw std::invalid_argument("the expert view must cover the ranks of its island");
    if (!island.expert_order.empty() && wheel_in(island.order, Axis::pp) != wheel_in(island.expert_order, Axis::pp))
      throw std::invalid_argument("both views must agree on the pipeline stage of every rank");
    ranks_ += island.ranks();
  }
}

int Mesh::island_of(int rank) const {
  for (std::size_t i = islands_.size(); i-- > 0;)
    if (rank >= islands_[i].first_rank) return static_cast<int>(i);
  throw std::out_of_range("rank");
}

ExprContext Mesh::context(int rank) const {
  ExprContext at;
  at.island = island_of(rank);
  const Island& island = nth(islands_, at.island);
  const int local = rank - island.first_rank;
  decompose(island.expert_order, local, at);
  decompose(island.order, local, at);
  if (island.join_total > 0) {
    const auto axis = index_of(join_ == Join::pp ? Axis::pp : Axis::dp_replicate);
    at.coord[axis] += island.join_first;
    at.extent[axis] = island.join_total;
  }
  return at;
}

int Mesh::rank_at(int island, const std::array<std::int32_t, kAxisCount>& coord) const {
  const Island& i = islands_.at(static_cast<std::size_t>(island));
  return i.first_rank + compose(i.order, coord);
}

std::vector<int> Mesh::members(const GroupSpec& group, int rank, const ExprPool& exprs) const {
  const ExprContext self = context(rank);
  const std::int64_t color = exprs.evaluate(group.color, self);
  AxisSet axes = group.axes;
  if (group.across_islands && join_ != Join::none) axes.insert(join_ == Join::pp ? Axis::pp : Axis::dp_replicate);
  std::vector<int> out;
  if (!allowed(group, self)) return out;
  const bool colored = group.color != ExprPool::kZero;
  const auto belongs = [&](int member) {
    if (!colored && islands_.size() == 1)
      return std::all_of(group.only.begin(), group.only.end(), [&](const auto& rule) {
        return std::find(rule.second.begin(), rule.second.end(), islands_.front().wheel(rule.first).at(member)) !=
               rule.second.end();
      });
    const ExprContext there = context(member);
    return allowed(group, there) && exprs.evaluate(group.color, there) == color;
  };
  const auto add_island = [&](int number) {
    const Island& island = nth(islands_, number);
    const auto& order = group.view == View::dense ? island.order : island.expert_order;
    // Walk the coordinates of the group's axes only, as an odometer; the others are the rank's own. Across islands the
    // axes that are not in the group must agree in coordinate, so an island whose extent is too small for them has no
    // member.
    struct Wheel {
      int extent, stride, at;
    };
    std::array<Wheel, kAxisCount> wheels{};
    auto coord = self.coord;
    if (island.join_total > 0 && number == self.island)
      coord[index_of(join_ == Join::pp ? Axis::pp : Axis::dp_replicate)] -= island.join_first;
    std::size_t free = 0;
    int member = island.first_rank, stride = 1, count = 1;
    for (const auto& [axis, extent] : order) {
      if (axes.contains(axis)) {
        wheels[free++] = {extent, stride, 0};
        count *= extent;
      } else if (coord[index_of(axis)] >= extent) {
        return;
      } else {
        member += coord[index_of(axis)] * stride;
      }
      stride *= extent;
    }
    const bool all = group.only.empty() && group.color == ExprPool::kZero;
    out.reserve(out.size() + static_cast<std::size_t>(count));
    for (int n = 0; n < count; ++n) {
      if (all || belongs(member)) out.push_back(member);
      for (std::size_t w = 0; w < free; ++w) {
        member += wheels[w].stride;
        if (++wheels[w].at < wheels[w].extent) break;
        member -= wheels[w].extent * wheels[w].stride;
        wheels[w].at = 0;
      }
    }
  };
  if (group.across_islands)
    for (std::size_t i = 0; i < islands_.size(); ++i) add_island(static_cast<int>(i));
  else
    add_island(self.island);
  return out;
}

int Mesh::group_size(const GroupSpec& group, int rank, const ExprPool& exprs) const {
  if (group.only.empty() && !group.across_islands && group.color == ExprPool::kZero) {
    const Island& island = nth(islands_, island_of(rank));
    int n = 1;
    for (const auto& [axis, extent] : group.view == View::dense ? island.order : island.expert_order)
      if (group.axes.contains(axis)) n *= extent;
    return n;
  }
  return static_cast<int>(members(group, rank, exprs).size());
}

}  // namespace rehearse
