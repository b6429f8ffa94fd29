#include "core/play/player/actors.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/index.hpp"
#include "core/play/player/body_expressions.hpp"
#include "core/play/player/closed_body.hpp"
#include "core/program/body.hpp"

namespace rehearse {

namespace {

/// Axes along which ranks hold different amounts of a tensor: those at the ends have a halo on one side only.
void add_halos(const Program& p, const Body& body, AxisSet& out) {
  for (const Formal& f : body.formals)
    for (const auto& [axis, layout] : nth(p.tensors, f.like).layout)
      if (std::holds_alternative<Halo>(layout)) out.insert(axis);
}

}  // namespace

AxisSet mattering_axes(const Program& p) {
  AxisSet out;
  const auto note = [&](ExprId id) {
    out.insert_all(p.exprs.coordinates(id));
    return false;
  };
  for (const Body& body : p.bodies) {
    (void)any_expression(p, body, note);
    add_halos(p, body, out);
  }
  for (const Role& role : p.roles)
    for (const Entry& e : role.step) note(e.predicate);
  return out;
}

bool tp_coordinate_matters(const Program& p) {
  const auto told_apart = [&](const GroupSpec& g) {
    return p.exprs.depends_on(g.color, Var::coord, static_cast<int>(Axis::tp));
  };
  if (mattering_axes(p).contains(Axis::tp) || std::any_of(p.groups.begin(), p.groups.end(), told_apart)) return true;
  // Experts' groups may mix ranks of one tensor-parallel group: exchanges between lanes cannot be played as one lane's.
  const Island& island = p.mesh.islands().front();
  if (island.expert_order.empty() || island.extent(Axis::tp) == 1) return false;
  for (int r = 0; r < island.ranks(); ++r) {
    const ExprContext at = p.mesh.context(r);
    if (nth(at.coord, Axis::tp) != nth(at.coord, Axis::etp)) return true;
  }
  return false;
}

int lane_stride(const Program& p, const Cluster& cluster) {
  const GroupSpec tp{"tp", View::dense, {Axis::tp}, {}, ExprPool::kZero, false};
  int stride = 0;
  std::vector<bool> seen(static_cast<std::size_t>(p.mesh.ranks()), false);
  for (int r = 0; r < p.mesh.ranks(); ++r) {
    if (nth(seen, r)) continue;
    const auto members = p.mesh.members(tp, r, p.exprs);
    for (std::size_t i = 0; i < members.size(); ++i) {
      nth(seen, members[i]) = true;
      const int device = nth(p.device_of_rank, members[i]);
      const int first = nth(p.device_of_rank, members[0]);
      if (cluster.node_of(device) != cluster.node_of(first)) return 0;
      if (i == 0) continue;
      const int step = device - nth(p.device_of_rank, members[i - 1]);
      if (stride == 0) stride = step;
      if (step != stride) return 0;
    }
  }
  return stride;
}

LaneForm lane_form(const Program& p, const Cluster& cluster, const CostModel& cost, const RunOptions& options) {
  const int tp = p.mesh.islands().size() == 1 ? p.mesh.islands().front().extent(Axis::tp) : 1;
  if (!options.fold || !cost.options().slowdown.empty() || tp == 1) return {};
  const int stride = lane_stride(p, cluster);
  if (stride <= 0 || tp_coordinate_matters(p)) return {};
  return {tp, stride};
}

namespace {

class CastMaker {
 public:
  CastMaker(const Program& p, const Cluster& cluster, const CostModel& cost, const RunOptions& options)
      : p_(p),
        cluster_(cluster),
        cost_(cost),
        options_(options),
        matters_(mattering_axes(p)),
        together_(groups_called_together(p)) {}

  Cast run() {
    decide_folding();
    make_actors();
    make_groups();
    make_channels();
    return std::move(cast_);
  }

 private:
  void decide_folding() {
    const auto [tp, stride] = lane_form(p_, cluster_, cost_, options_);
    if (tp == 1) {
      cast_.folding = "every rank is played";
      return;
    }
    cast_.lanes = tp;
    cast_.lane_stride = stride;
    cast_.folding = fmt::format(
        "the {} ranks of a tensor-parallel group are played as one: they lie in one node, do equal work and each flow "
        "counts {} times on any wire "
        "its copies share; every stage of every replica is played",
        tp, tp);
  }

  void make_actors() {
    cast_.actor_of_rank.assign(static_cast<std::size_t>(p_.mesh.ranks()), -1);
    std::map<std::pair<int, std::string>, int> compiled;
    const auto axis = static_cast<std::size_t>(Axis::tp);
    for (int r = 0; r < p_.mesh.ranks(); ++r) {
      ExprContext at = p_.mesh.context(r);
      if (cast_.lanes > 1 && at.coord[axis] != 0) {
        at.coord[axis] = 0;
        nth(cast_.actor_of_rank, r) = nth(cast_.actor_of_rank, p_.mesh.rank_at(at.island, at.coord));
        if (nth(cast_.actor_of_rank, r) < 0) throw std::logic_error("a folded rank comes before its first lane");
        continue;
      }
      const int role = nth(p_.role_of_rank, r);
      const int device = nth(p_.device_of_rank, r);
      // Ranks of one role on one kind of GPU, whose groups look alike from where they are, share their prices.
      const auto slow = cost_.options().slowdown.find(r);
      const auto key =
          std::pair(role, cluster_.gpu(device).id + placement_signature(r) +
                              (slow == cost_.options().slowdown.end() ? "" : fmt::format(" x{}", slow->second)));
      const auto [at_key, fresh] = compiled.try_emplace(key, static_cast<int>(cast_.compiled.size()));
      if (fresh) cast_.compiled.push_back(compile_role(p_, cost_, r, options_));
      nth(cast_.actor_of_rank, r) = static_cast<std::int32_t>(cast_.actors.size());
      cast_.actors.push_back({r, device, role, at_key->second, cast_.lanes});
    }
  }

  /// How many members the groups of tensor and expert parallelism, priced inside bodies, and those told apart by an
  /// expression have on this rank's node and on the others, which bodies are closed, and coordinates that matter; equal
  /// signatures mean equal prices and peers. Unequal slices of a dimension make the coordinate matter.
  std::string placement_signature(int rank) {
    std::string out;
    const int node = cluster_.node_of(nth(p_.device_of_rank, rank));
    const auto add = [&](const GroupSpec& group) {
      std::map<int, int> members_on;
      for (const int m : p_.mesh.members(group, rank, p_.exprs))
        ++members_on[cluster_.node_of(nth(p_.device_of_rank, m))];
      std::vector<int> elsewhere;
      for (const auto& [n, count] : members_on)
        if (n != node) elsewhere.push_back(count);
      std::sort(elsewhere.begin(), elsewhere.end());
      out += fmt::format("{}+{} ", members_on[node], fmt::join(elsewhere, "+"));
    };
    add({"tp", View::dense, {Axis::tp}, {}, ExprPool::kZero, false});
    for (const GroupSpec& group : p_.groups)
      if (group.view == View::expert || group.color != ExprPool::kZero) add(group);
    for (const std::vector<int>& groups : together_) out += meets_in_node(p_, cluster_, groups, rank) ? " in" : " out";
    if (matters_.empty()) return out;
    const ExprContext at = p_.mesh.context(rank);
    for (int a = 0; a < kAxisCount; ++a)
      if (matters_.contains(static_cast<Axis>(a))) out += fmt::format(" {}", nth(at.coord, a));
    return out;
  }

  void make_groups() {
    std::vector<bool> used(p_.groups.size(), false);
    for (const CompiledRole& c : cast_.compiled)
      for (const PlayOp& op : c.ops)
        if (op.kind == PlayOp::Kind::collective) nth(used, op.group) = true;
    cast_.group_index.assign(p_.groups.size() * cast_.actors.size(), -1);
    for (std::size_t g = 0; g < p_.groups.size(); ++g) {
      if (!used[g]) continue;
      for (std::size_t a = 0; a < cast_.actors.size(); ++a) {
        if (cast_.group_of(static_cast<std::int32_t>(a), static_cast<int>(g)) < 0)
          add_group(static_cast<int>(g), cast_.actors[a].rank);
      }
    }
  }

  /// Each once, in ascending order.
  [[nodiscard]] std::vector<std::int32_t> actors_of(const std::vector<int>& ranks) const {
    std::vector<std::int32_t> out;
    for (const int r : ranks) out.push_back(nth(cast_.actor_of_rank, r));
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  void add_group(int g, int rank) {
    const auto members = p_.mesh.members(nth(p_.groups, g), rank, p_.exprs);
    if (members.empty()) return;
    Cast::Group group{.program_group = g, .rank = rank, .actors = {}, .devices = {}, .lanes = 1};
    const auto index = static_cast<std::int32_t>(cast_.groups.size());
    // A group that contains the folded axis spans all lanes: one call. Otherwise there is one call per lane, side by
    // side.
    const AxisSet axes = nth(p_.groups, g).axes;
    const bool spans_lanes = axes.contains(Axis::tp) || axes.contains(Axis::etp);
    group.lanes = spans_lanes ? 1 : cast_.lanes;
    for (const int m : members) group.devices.push_back(nth(p_.device_of_rank, m));
    group.actors = actors_of(members);
    for (const std::int32_t a : group.actors)
      cast_.group_index[static_cast<std::size_t>(g) * cast_.actors.size() + static_cast<std::size_t>(a)] = index;
    cast_.groups.push_back(std::move(group));
  }

  void make_channels() {
    std::map<std::tuple<int, std::int32_t, std::int32_t>, std::int32_t> channel_of;
    cast_.channels.resize(cast_.actors.size());
    for (std::size_t a = 0; a < cast_.actors.size(); ++a) {
      const CompiledRole& c = nth(cast_.compiled, cast_.actors[a].compiled);
      for (const CompiledRole::Endpoint& e : c.endpoints) {
        const auto members = p_.mesh.members(nth(p_.groups, e.group), cast_.actors[a].rank, p_.exprs);
        const int peer_rank = members.at(static_cast<std::size_t>(e.peer));
        const std::int32_t me = static_cast<std::int32_t>(a), peer = nth(cast_.actor_of_rank, peer_rank);
        for (const auto& [from, to] : {std::pair(me, peer), std::pair(peer, me)}) {
          const auto [at, fresh] =
              channel_of.try_emplace({e.edge, from, to}, static_cast<std::int32_t>(cast_.channel_list.size()));
          if (fresh) {
            const Actor &sender = nth(cast_.actors, from), &receiver = nth(cast_.actors, to);
            cast_.channel_list.push_back({from, to, e.edge, sender.rank, sender.device, receiver.device});
          }
          cast_.channels[a].push_back(at->second);
        }
      }
    }
  }

  const Program& p_;
  const Cluster& cluster_;
  const CostModel& cost_;
  const RunOptions& options_;
  Cast cast_;
  AxisSet matters_;
  std::vector<std::vector<int>> together_;  ///< Groups that one body calls.
};

}  // namespace

Cast make_cast(const Program& program, const Cluster& cluster, const CostModel& cost, const RunOptions& options) {
  return CastMaker(program, cluster, cost, options).run();
}

}  // namespace rehearse
