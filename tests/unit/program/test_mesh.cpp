#include <algorithm>
#include <set>

#include "core/base/index.hpp"
#include "core/program/mesh.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

namespace {

Island island(std::vector<AxisExtent> order, int first_rank = 0) {
  Island i;
  i.first_rank = first_rank;
  i.order = std::move(order);
  return i;
}

Mesh dense(int tp, int dp, int pp) {
  return Mesh({island({{Axis::tp, tp}, {Axis::dp_replicate, dp}, {Axis::pp, pp}})}, Join::none);
}

GroupSpec along(AxisSet axes, View view = View::dense) {
  GroupSpec g;
  g.view = view;
  g.axes = axes;
  return g;
}

/// Groups of a family, each found from every one of its members.
std::set<std::vector<int>> partition(const Mesh& mesh, const GroupSpec& group, const ExprPool& pool) {
  std::set<std::vector<int>> out;
  for (int r = 0; r < mesh.ranks(); ++r) {
    const auto members = mesh.members(group, r, pool);
    CHECK(std::count(members.begin(), members.end(), r) == 1);
    CHECK(mesh.group_size(group, r, pool) == static_cast<int>(members.size()));
    out.insert(members);
  }
  return out;
}

std::size_t coord(const Mesh& m, int rank, Axis a) { return static_cast<std::size_t>(nth(m.context(rank).coord, a)); }

}  // namespace

TEST_CASE("ranks and coordinates are a bijection, the first axis fastest") {
  const Mesh mesh = dense(4, 3, 2);
  CHECK(mesh.ranks() == 24);
  for (int r = 0; r < mesh.ranks(); ++r) CHECK(mesh.rank_at(0, mesh.context(r).coord) == r);
  CHECK(coord(mesh, 1, Axis::tp) == 1);
  CHECK(coord(mesh, 4, Axis::dp_replicate) == 1);
  CHECK(coord(mesh, 12, Axis::pp) == 1);
  CHECK(nth(mesh.context(5).extent, Axis::tp) == 4);
}

TEST_CASE("every family of groups divides the ranks") {
  const Mesh mesh = dense(4, 3, 2);
  const ExprPool pool;
  const struct {
    AxisSet axes;
    std::size_t groups, size;
  } kCases[] = {{{Axis::tp}, 6, 4},  {{Axis::dp_replicate}, 8, 3},
                {{Axis::pp}, 12, 2}, {{Axis::tp, Axis::pp}, 3, 8},
                {{}, 24, 1},         {{Axis::tp, Axis::dp_replicate, Axis::pp}, 1, 24}};
  for (const auto& c : kCases) {
    const auto groups = partition(mesh, along(c.axes), pool);
    CHECK(groups.size() == c.groups);
    std::size_t covered = 0;
    for (const auto& g : groups) {
      CHECK(g.size() == c.size);
      covered += g.size();
    }
    CHECK(covered == 24);
  }
  CHECK(mesh.members(along({Axis::tp}), 0, pool) == std::vector{0, 1, 2, 3});
  CHECK(mesh.members(along({Axis::pp}), 13, pool) == std::vector{1, 13});
}

TEST_CASE("a family may keep some coordinates only, or split by colour") {
  const Mesh mesh = dense(2, 1, 4);
  ExprPool pool;
  GroupSpec ends = along({Axis::pp});
  ends.only = {{Axis::pp, {0, 3}}};
  CHECK(mesh.members(ends, 0, pool) == std::vector{0, 6});
  CHECK(mesh.members(ends, 7, pool) == std::vector{1, 7});
  CHECK(mesh.members(ends, 2, pool).empty());
  CHECK(mesh.group_size(ends, 2, pool) == 0);
  GroupSpec halves = along({Axis::pp});
  halves.color = pool.apply(ExprOp::div, pool.coord(Axis::pp), pool.constant(2));
  CHECK(mesh.members(halves, 0, pool) == std::vector{0, 2});
  CHECK(mesh.members(halves, 4, pool) == std::vector{4, 6});
}

TEST_CASE("the expert view re-divides the ranks of each stage") {
  Island i = island({{Axis::tp, 2}, {Axis::dp_shard, 4}, {Axis::pp, 2}});
  i.expert_order = {{Axis::etp, 1}, {Axis::ep, 4}, {Axis::edp, 2}, {Axis::pp, 2}};
  const Mesh mesh({i}, Join::none);
  const ExprPool pool;
  for (const auto& g : partition(mesh, along({Axis::ep}, View::expert), pool)) {
    CHECK(g.size() == 4);
    for (const int r : g) CHECK(coord(mesh, r, Axis::pp) == coord(mesh, g.front(), Axis::pp));
  }
  CHECK(mesh.members(along({Axis::ep}, View::expert), 5, pool) == std::vector{4, 5, 6, 7});
  CHECK(mesh.members(along({Axis::edp}, View::expert), 5, pool) == std::vector{1, 5});

  i.expert_order = {{Axis::ep, 4}, {Axis::pp, 2}};
  CHECK_THROWS_AS(Mesh({i}, Join::none), std::invalid_argument);
  // The same number of ranks, but dealt over the stages.
  i.expert_order = {{Axis::pp, 2}, {Axis::ep, 4}, {Axis::edp, 2}};
  CHECK_THROWS_AS(Mesh({i}, Join::none), std::invalid_argument);
}

TEST_CASE("islands joined over dp share a coordinate that continues") {
  Island fast = island({{Axis::tp, 2}, {Axis::dp_replicate, 3}});
  Island slow = island({{Axis::tp, 2}, {Axis::dp_replicate, 1}}, 6);
  fast.join_total = slow.join_total = 4;
  slow.join_first = 3;
  const Mesh mesh({fast, slow}, Join::dp);
  const ExprPool pool;
  CHECK(mesh.ranks() == 8);
  CHECK(mesh.island_of(5) == 0);
  CHECK(mesh.island_of(6) == 1);
  CHECK(coord(mesh, 7, Axis::dp_replicate) == 3);
  CHECK(nth(mesh.context(7).extent, Axis::dp_replicate) == 4);
  GroupSpec dp = along({Axis::dp_replicate});
  CHECK(mesh.members(dp, 0, pool) == std::vector{0, 2, 4});
  dp.across_islands = true;
  CHECK(mesh.members(dp, 0, pool) == std::vector{0, 2, 4, 6});
  CHECK(mesh.members(dp, 7, pool) == std::vector{1, 3, 5, 7});
  CHECK(mesh.group_size(dp, 7, pool) == 4);
}

TEST_CASE("islands joined over pp keep their own widths") {
  Island wide = island({{Axis::tp, 4}, {Axis::pp, 2}});
  Island narrow = island({{Axis::tp, 2}, {Axis::pp, 1}}, 8);
  wide.join_total = narrow.join_total = 3;
  narrow.join_first = 2;
  const Mesh mesh({wide, narrow}, Join::pp);
  const ExprPool pool;
  GroupSpec stages = along({Axis::pp});
  stages.across_islands = true;
  CHECK(mesh.members(stages, 1, pool) == std::vector{1, 5, 9});
  CHECK(mesh.members(stages, 3, pool) == std::vector{3, 7});  // The narrow island has no rank with tp coordinate 3.
  CHECK(coord(mesh, 8, Axis::pp) == 2);
  Island overlapping = island({{Axis::tp, 2}}, 7);
  CHECK_THROWS_AS(Mesh({wide, overlapping}, Join::pp), std::invalid_argument);
}
