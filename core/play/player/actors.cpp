#include "core/play/player/actors.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/index.hpp"
#include "core/play/player/body_expressions.hpp"
#include "core/program/body.hpp"

namespace rehearse {

namespace {

/// Whether ranks along `axis` hold different amounts of a tensor: those at the ends have a halo on one side only.
bool holds_halos(const Program& p, const Body& body, Axis axis) {
  return std::any_of(body.formals.begin(), body.formals.end(), [&](const Formal& f) {
    return std::holds_alternative<Halo>(layout_on(nth(p.tensors, f.like).layout, axis));
  });
}

}  // namespace

AxisSet mattering_axes(const Program& p) {
  AxisSet out;
  for (int a = 0; a < kAxisCount; ++a) {
    const auto depends = [&](ExprId id) { return p.exprs.depends_on(id, Var::coord, a); };
    const auto in_entries = [&](const Role& role) {
      return std::any_of(role.step.begin(), role.step.end(), [&](const Entry& e) { return depends(e.predicate); });
    };
    const auto axis = static_cast<Axis>(a);
    if (std::any_of(p.bodies.begin(), p.bodies.end(),
                    [&](const Body& body) { return any_expression(p, body, depends) || holds_halos(p, body, axis); }) ||
        std::any_of(p.roles.begin(), p.roles.end(), in_entries))
      out.insert(static_cast<Axis>(a));
  }
  return out;
}

bool first_rank_leads(const Program& p, Axis axis) {
  const int a = static_cast<int>(axis);
  const auto depends = [&](ExprId id) { return p.exprs.depends_on(id, Var::coord, a); };
  const auto grows = [&](ExprId id) {
    if (!depends(id)) return false;
    for (int other = 0; other < kAxisCount; ++other)
      if (other != a && p.exprs.depends_on(id, Var::coord, other)) return true;
    constexpr std::array kOthers{Var::layer, Var::chunk, Var::microbatch, Var::pass, Var::copy, Var::step, Var::peer};
    if (std::any_of(kOthers.begin(), kOthers.end(), [&](Var v) { return p.exprs.depends_on(id, v); })) return true;
    for (const Island& island : p.mesh.islands()) {
      ExprContext at = p.mesh.context(island.first_rank);
      at.tables = &p.tables;
      std::int64_t before = std::numeric_limits<std::int64_t>::max();
      for (std::int32_t& i = nth(at.coord, a) = 0; i < nth(at.extent, a); ++i) {
        const std::int64_t size = p.exprs.evaluate(id, at);
        if (size > before) return true;
        before = size;
      }
    }
    return false;
  };
  const auto asks = [&](const Task& task) {
    const auto* m = std::get_if<P2pTask>(&task.kind);
    const auto* c = std::get_if<ComputeTask>(&task.kind);
    return depends(task.predicate) || (m != nullptr && depends(m->peer)) ||
           (c != nullptr && std::any_of(c->dims.begin(), c->dims.end(), grows));
  };
  const auto unfit = [&](const Body& body) {
    const auto tasks = body.graph.vertices();
    return holds_halos(p, body, axis) ||
           std::any_of(tasks.begin(), tasks.end(), [&](auto v) { return asks(body.graph[v]); }) ||
           std::any_of(body.formals.begin(), body.formals.end(), [&](const Formal& f) {
             const auto& shape = nth(p.tensors, f.like).shape;
             return std::any_of(shape.begin(), shape.end(), grows);
           });
  };
  const auto in_entries = [&](const Role& role) {
    return std::any_of(role.step.begin(), role.step.end(), [&](const Entry& e) { return depends(e.predicate); });
  };
  return std::none_of(p.bodies.begin(), p.bodies.end(), unfit) &&
         std::none_of(p.roles.begin(), p.roles.end(), in_entries);
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

namespace {

class CastMaker {
 public:
  CastMaker(const Program& p, const Cluster& cluster, const CostModel& cost, const RunOptions& options)
      : p_(p), cluster_(cluster), cost_(cost), options_(options), matters_(mattering_axes(p)) {}

  Cast run() {
    decide_folding();
    if (options_.fold_replicas) find_likeness();
    make_actors();
    make_groups();
    make_channels();
    return std::move(cast_);
  }

  /// Whether every call and message of a folded cast still finds all its members.
  [[nodiscard]] bool sound() const { return sound_; }

 private:
  void decide_folding() {
    const int tp = p_.mesh.islands().size() == 1 ? p_.mesh.islands().front().extent(Axis::tp) : 1;
    const int stride = tp > 1 ? lane_stride(p_, cluster_) : 0;
    if (!options_.fold || !cost_.options().slowdown.empty() || tp == 1 || stride <= 0 || tp_coordinate_matters(p_)) {
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

  /// Ranks of one role on one kind of GPU are alike when their groups lie alike on their nodes and cost the same, along
  /// an axis whose first ranks lead too.
  void find_likeness() {
    for (int a = 0; a < kAxisCount; ++a)
      if (matters_.contains(static_cast<Axis>(a)) && first_rank_leads(p_, static_cast<Axis>(a)))
        led_.insert(static_cast<Axis>(a));
    const std::set<int> with_messages = groups_of_messages();
    std::vector<std::string> places(static_cast<std::size_t>(p_.mesh.ranks()));
    for (std::size_t g = 0; g < p_.groups.size(); ++g) {
      std::map<std::vector<int>, int> patterns;
      std::vector<bool> seen(places.size(), false);
      for (int r = 0; r < p_.mesh.ranks(); ++r) {
        if (nth(seen, r)) continue;
        const auto members = p_.mesh.members(p_.groups[g], r, p_.exprs);
        if (members.empty()) continue;
        const int number = patterns
                               .try_emplace(pattern_of(members, with_messages.contains(static_cast<int>(g))),
                                            static_cast<int>(patterns.size()))
                               .first->second;
        for (const int m : members) {
          nth(seen, m) = true;
          nth(places, m) += fmt::format(" {}:{}", g, number);
        }
      }
    }
    for (int r = 0; r < p_.mesh.ranks(); ++r) {
      const auto i = static_cast<std::size_t>(r);
      like_.push_back(fmt::format("{} {} {}{}", p_.role_of_rank[i], cluster_.gpu(p_.device_of_rank[i]).id,
                                  placement_signature(r, led_), places[i]));
    }
    cast_.folding = "replicas whose groups lie alike are played as one";
  }

  [[nodiscard]] std::set<int> groups_of_messages() const {
    std::set<int> out;
    for (const Body& body : p_.bodies)
      for (const auto v : body.graph.vertices())
        if (const auto* m = std::get_if<P2pTask>(&body.graph[v].kind)) out.insert(m->group);
    return out;
  }

  /// Equal for groups whose members lie as many nodes apart and whose calls, and messages between any two where it has
  /// any, cost the same.
  [[nodiscard]] std::vector<int> pattern_of(const std::vector<int>& members, bool messages) const {
    std::vector<DeviceId> devices;
    for (const int m : members) devices.push_back(nth(p_.device_of_rank, m));
    const CollectiveModel& prices = cost_.collectives();
    std::vector<int> out{prices.likeness(devices)};
    for (const DeviceId d : devices) out.push_back(cluster_.node_of(d) - cluster_.node_of(devices.front()));
    for (std::size_t i = 0; messages && i < devices.size(); ++i)
      for (std::size_t j = i + 1; j < devices.size(); ++j)
        out.push_back(prices.likeness(std::array{devices[i], devices[j]}));
    return out;
  }

  /// Ranks along an axis that is led come after its first, which then stands for them.
  [[nodiscard]] std::vector<int> in_order() const {
    std::vector<int> out(static_cast<std::size_t>(p_.mesh.ranks()));
    std::iota(out.begin(), out.end(), 0);
    if (led_.empty()) return out;
    const auto place = [this](int r) {
      std::int32_t sum = 0;
      const ExprContext at = p_.mesh.context(r);
      for (int a = 0; a < kAxisCount; ++a)
        if (led_.contains(static_cast<Axis>(a))) sum += nth(at.coord, a);
      return sum;
    };
    std::stable_sort(out.begin(), out.end(), [&](int a, int b) { return place(a) < place(b); });
    return out;
  }

  void make_actors() {
    std::map<std::string, std::int32_t> actor_of_likeness;
    cast_.actor_of_rank.assign(static_cast<std::size_t>(p_.mesh.ranks()), -1);
    std::map<std::pair<int, std::string>, int> compiled;
    const auto axis = static_cast<std::size_t>(Axis::tp);
    for (const int r : in_order()) {
      ExprContext at = p_.mesh.context(r);
      if (cast_.lanes > 1 && at.coord[axis] != 0) {
        at.coord[axis] = 0;
        nth(cast_.actor_of_rank, r) = nth(cast_.actor_of_rank, p_.mesh.rank_at(at.island, at.coord));
        if (nth(cast_.actor_of_rank, r) < 0) throw std::logic_error("a folded rank comes before its first lane");
        continue;
      }
      if (!like_.empty()) {
        const auto [known, first] =
            actor_of_likeness.try_emplace(nth(like_, r), static_cast<std::int32_t>(cast_.actors.size()));
        nth(cast_.actor_of_rank, r) = known->second;
        if (!first) continue;
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
  /// expression have on this rank's node and on the others, and coordinates that matter, but for axes `without`; equal
  /// signatures mean equal prices and peers. Unequal slices of a dimension make the coordinate matter.
  std::string placement_signature(int rank, AxisSet without = {}) {
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
    if (matters_.empty()) return out;
    const ExprContext at = p_.mesh.context(rank);
    for (int a = 0; a < kAxisCount; ++a)
      if (matters_.contains(static_cast<Axis>(a)) && !without.contains(static_cast<Axis>(a)))
        out += fmt::format(" {}", nth(at.coord, a));
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
        const std::int32_t known = cast_.group_of(static_cast<std::int32_t>(a), static_cast<int>(g));
        if (known < 0)
          add_group(static_cast<int>(g), cast_.actors[a].rank);
        else if (!like_.empty())
          sound_ &= actors_of(p_.mesh.members(p_.groups[g], cast_.actors[a].rank, p_.exprs)) ==
                    nth(cast_.groups, known).actors;
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
        if (!like_.empty()) sound_ &= nth(cast_.actors, peer).rank == peer_rank;
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
  AxisSet led_;                    ///< Axes that matter along which one rank stands for all.
  std::vector<std::string> like_;  ///< By rank, where replicas are folded: equal for those played as one.
  bool sound_ = true;
};

}  // namespace

Cast make_cast(const Program& program, const Cluster& cluster, const CostModel& cost, const RunOptions& options) {
  if (options.fold_replicas) {
    CastMaker maker(program, cluster, cost, options);
    Cast cast = maker.run();
    if (maker.sound()) return cast;
  }
  RunOptions plain = options;
  plain.fold_replicas = false;
  return CastMaker(program, cluster, cost, plain).run();
}

}  // namespace rehearse
