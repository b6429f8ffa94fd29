#include "core/estimate/walk/rank_kinds.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "core/base/index.hpp"
#include "core/collective/traffic.hpp"
#include "core/estimate/walk/rank_leaders.hpp"
#include "core/estimate/walk/whole_passes.hpp"
#include "core/play/player/actors.hpp"
#include "core/play/player/closed_body.hpp"
#include "core/program/body.hpp"

namespace rehearse {

namespace {

struct ListHash {
  std::size_t operator()(const std::vector<int>& list) const {
    std::uint64_t h = list.size();
    for (const int x : list) h = (h ^ static_cast<std::uint32_t>(x)) * 0x9E3779B97F4A7C15ULL, h ^= h >> 32;
    return h;
  }
};

/// Numbers lists in the order in which they are met.
class Numbers {
 public:
  int of(std::vector<int> list) {
    return known_.try_emplace(std::move(list), static_cast<int>(known_.size())).first->second;
  }
  [[nodiscard]] int count() const { return static_cast<int>(known_.size()); }

 private:
  std::unordered_map<std::vector<int>, int, ListHash> known_;
};

}  // namespace

struct RankKindFinder::Impl {
 public:
  Impl(const Program& p, const CostModel& cost, int steps, CallPrices& prices)
      : p_(p),
        cost_(cost),
        cluster_(cost.cluster()),
        steps_(steps),
        prices_(prices),
        matters_(mattering_axes(p)),
        leaders_(p, matters_),
        passes_(p, cost, prices),
        index_of_rank_(static_cast<std::size_t>(p.mesh.ranks()), -1) {
    choose_lanes();
    choose_turns();
    list_ranks();
    find_groups();
    number_prices();
    peers_.resize(ranks_.size());
    divide();
    (void)note_meetings();
  }

  KindsOfRanks find() {
    out_.kinds.clear();
    do {
      compile();
      find_peers();
      divide();
    } while (note_meetings());
    name_kinds();
    return std::move(out_);
  }

 private:
  /// Instances of one family of groups: who is in which, and how each is priced.
  struct Family {
    int group = 0;
    std::vector<int> instance;              ///< By index; -1 for none.
    std::vector<std::vector<int>> members;  ///< By instance: indices.
    std::vector<int> price;                 ///< By instance: equal numbers, equal prices.
    std::vector<int> sign;                  ///< By instance: the price, and the kinds of the members.
  };

  [[nodiscard]] DeviceId device(int rank) const { return nth(p_.device_of_rank, rank); }

  void choose_lanes() {
    const int tp = p_.mesh.islands().size() == 1 ? p_.mesh.islands().front().extent(Axis::tp) : 1;
    if (tp == 1 || !cost_.options().slowdown.empty()) return;
    const int stride = lane_stride(p_, cluster_);
    if (stride <= 0 || tp_coordinate_matters(p_)) return;
    lanes_ = tp;
    prices_.set_lanes(tp, stride);
  }

  /// Of ranks that provably begin and end everything together, whatever it is, the first is listed alone: of lanes, and
  /// of replicas that are `period` apart along an axis.
  struct Turn {
    Island::Wheel wheel;
    int period;
  };

  /// To move all replicas on by `period` is a symmetry of the job where every rank comes to the same place of another
  /// node, and keeps its coordinates in the expert view but that among copies of experts, and nothing asks which
  /// replica it is: ranks that it carries to one another are alike.
  void choose_turns() {
    if (lanes_ > 1) turns_.push_back({p_.mesh.islands().front().wheel(Axis::tp), 1});
    if (p_.mesh.islands().size() != 1 || cluster_.parts().size() != 1 || !cost_.options().slowdown.empty() ||
        traffic::routed_by_nodes(cluster_) || !ranks_are_devices() || told_apart(Axis::edp))
      return;
    const std::vector<Turn> lanes = turns_;
    const Island& island = p_.mesh.islands().front();
    for (const Axis axis : {Axis::dp_replicate, Axis::dp_shard}) {
      if (told_apart(axis)) continue;
      const Island::Wheel wheel = island.wheel(axis);
      for (int period = 1; period < wheel.extent; ++period) {
        if (wheel.extent % period != 0 || !keeps_places(island, period * wheel.stride)) continue;
        turns_.push_back({wheel, period});
        break;
      }
    }
    for (int r = 0; r < p_.mesh.ranks(); ++r)
      if (nth(p_.role_of_rank, r) != nth(p_.role_of_rank, first_alike(r))) {
        turns_ = lanes;
        return;
      }
  }

  [[nodiscard]] bool ranks_are_devices() const {
    for (std::size_t r = 0; r < p_.device_of_rank.size(); ++r)
      if (p_.device_of_rank[r] != static_cast<int>(r)) return false;
    return true;
  }

  [[nodiscard]] bool told_apart(Axis axis) const {
    return matters_.contains(axis) || std::any_of(p_.groups.begin(), p_.groups.end(), [&](const GroupSpec& g) {
             return p_.exprs.depends_on(g.color, Var::coord, static_cast<int>(axis)) ||
                    std::any_of(g.only.begin(), g.only.end(), [&](const auto& rule) { return rule.first == axis; });
           });
  }

  [[nodiscard]] bool keeps_places(const Island& island, int ranks) const {
    const auto keeps = [&](const AxisExtent& e) {
      const Island::Wheel wheel = island.wheel(e.axis);
      return e.axis == Axis::edp || e.axis == Axis::pp || ranks % (wheel.stride * wheel.extent) == 0;
    };
    return ranks % (cluster_.device_count() / cluster_.node_count()) == 0 &&
           std::all_of(island.expert_order.begin(), island.expert_order.end(), keeps);
  }

  /// The rank that is listed for `rank`, no later than that.
  [[nodiscard]] int first_alike(int rank) const {
    int out = rank;
    for (const Turn& turn : turns_) {
      const int at = turn.wheel.at(rank);
      out -= (at - at % turn.period) * turn.wheel.stride;
    }
    return out;
  }

  void list_ranks() {
    for (int r = 0; r < p_.mesh.ranks(); ++r) {
      const int first = first_alike(r);
      if (first == r) {
        nth(index_of_rank_, r) = static_cast<int>(ranks_.size());
        ranks_.push_back(r);
      } else {
        nth(index_of_rank_, r) = nth(index_of_rank_, first);
      }
    }
    for (int a = 0; a < kAxisCount; ++a) {
      const auto axis = static_cast<Axis>(a);
      if (matters_.contains(axis) && !leaders_.leads_along(axis)) asked_.push_back(axis);
    }
  }

  /// Those over which some body calls, with their instances.
  void find_groups() {
    std::set<int> called;
    for (const Body& body : p_.bodies)
      for (const auto v : body.graph.vertices())
        if (const auto* c = std::get_if<CollectiveTask>(&body.graph[v].kind)) called.insert(c->group);
    for (const int g : called) {
      Family family;
      family.group = g;
      family.instance.assign(ranks_.size(), -1);
      for (std::size_t i = 0; i < ranks_.size(); ++i)
        if (family.instance[i] < 0) add_instance(family, ranks_[i]);
      families_.push_back(std::move(family));
    }
  }

  void add_instance(Family& family, int rank) {
    const std::vector<int> ranks = p_.mesh.members(nth(p_.groups, family.group), rank, p_.exprs);
    if (ranks.empty()) return;
    std::vector<DeviceId> devices;
    std::vector<int> members;
    for (const int r : ranks) {
      devices.push_back(device(r));
      const int index = nth(index_of_rank_, r);
      if (members.empty() || members.back() != index) members.push_back(index);
    }
    std::sort(members.begin(), members.end());
    members.erase(std::unique(members.begin(), members.end()), members.end());
    for (const int m : members) nth(family.instance, m) = static_cast<int>(family.members.size());
    family.members.push_back(std::move(members));
    family.price.push_back(cost_.collectives().likeness(devices));
  }

  /// The first division: by all that prices of a role depend on.
  void number_prices() {
    std::map<std::string, int> gpus;
    Numbers classes, kinds;
    const auto& slow = cost_.options().slowdown;
    const std::vector<std::vector<int>> together = groups_called_together(p_);
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const int r = ranks_[i];
      std::vector<int> key{gpus.try_emplace(cluster_.gpu(device(r)).id, static_cast<int>(gpus.size())).first->second,
                           slow.contains(r) ? r : -1};
      const ExprContext at = p_.mesh.context(r);
      for (const Axis axis : asked_) key.push_back(nth(at.coord, axis));
      for (const std::vector<int>& groups : together) key.push_back(meets_in_node(p_, cluster_, groups, r) ? 1 : 0);
      for (const Family& f : families_)
        if (!nth(p_.groups, f.group).axes.contains(Axis::pp))
          key.push_back(f.instance[i] < 0 ? -1 : nth(f.price, f.instance[i]));
      class_.push_back(classes.of(std::move(key)));
      kind_.push_back(kinds.of({nth(p_.role_of_rank, r), class_.back()}));
    }
    compiled_ = kind_;
    kinds_ = compiled_kinds_ = kinds.count();
  }

  /// By kind, the rank that stands for it: an index.
  [[nodiscard]] std::vector<int> leaders(const std::vector<int>& kind_of, int kinds) {
    std::vector<int> out(static_cast<std::size_t>(kinds), -1);
    std::vector<RankLeaders::Standing> best(out.size());
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const RankLeaders::Standing here = leaders_.standing(ranks_[i]);
      int& leader = nth(out, kind_of[i]);
      if (leader >= 0 && !here.before(nth(best, kind_of[i]))) continue;
      leader = static_cast<int>(i);
      nth(best, kind_of[i]) = here;
    }
    return out;
  }

  void compile() {
    RunOptions options;
    options.steps = steps_;
    out_.compiled.clear();
    for (const int leader : leaders(compiled_, compiled_kinds_)) {
      passes_.set_price_class(nth(class_, leader));
      out_.compiled.push_back(compile_role(p_, cost_, nth(ranks_, leader), options, &passes_));
    }
  }

  /// Whether bodies that were taken as whole have to wait for ranks of other kinds.
  [[nodiscard]] bool note_meetings() {
    bool more = false;
    for (const CallGroup& call : out_.calls)
      if (call.kinds > 1) more |= passes_.set_meets_others(call.group);
    return more;
  }

  /// Whom each endpoint of each rank talks to, and how messages there and back are priced.
  void find_peers() {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      peers_[i].clear();
      for (const CompiledRole::Endpoint& e : nth(out_.compiled, compiled_[i]).endpoints) {
        const auto members = p_.mesh.members(nth(p_.groups, e.group), ranks_[i], p_.exprs);
        const int peer = members.at(static_cast<std::size_t>(e.peer));
        const DeviceId here = device(ranks_[i]), there = device(peer);
        int price = -1;
        if (here != there) price = cost_.collectives().likeness(std::array{here, there}) * 2;
        if (cluster_.node_of(here) == cluster_.node_of(there)) ++price;
        peers_[i].push_back({nth(index_of_rank_, peer), there, price, e.edge});
      }
    }
  }

  /// Ranks to which another one talks in turn, a server or the reader of a funnel, are never alike: each is met at a
  /// moment of its own. By rank, its turns with those that meet more than one of its kind along one edge.
  [[nodiscard]] std::vector<std::vector<int>> turns_taken() const {
    std::vector<std::vector<int>> out(ranks_.size());
    for (const std::vector<Peer>& peers : peers_) {
      std::map<std::pair<int, int>, int> first;  // By edge and kind: whom.
      std::set<std::pair<int, int>> several;
      for (const Peer& peer : peers) {
        const std::pair key{peer.edge, nth(kind_, peer.index)};
        if (first.try_emplace(key, peer.index).first->second != peer.index) several.insert(key);
      }
      if (several.empty()) continue;
      for (std::size_t turn = 0; turn < peers.size(); ++turn)
        if (several.contains({peers[turn].edge, nth(kind_, peers[turn].index)}))
          nth(out, peers[turn].index).push_back(static_cast<int>(turn));
    }
    return out;
  }

  /// Divides kinds until they meet equal kinds.
  void divide() {
    for (int before = 0; before != kinds_;) {
      before = kinds_;
      sign_calls();
      Numbers numbers;
      std::vector<int> next;
      const std::vector<std::vector<int>> turns = turns_taken();
      for (std::size_t i = 0; i < ranks_.size(); ++i) {
        std::vector<int> key{kind_[i]};
        for (const Family& f : families_) key.push_back(f.instance[i] < 0 ? -1 : nth(f.sign, f.instance[i]));
        for (const Peer& peer : peers_[i]) key.insert(key.end(), {nth(kind_, peer.index), peer.price});
        key.insert(key.end(), turns[i].begin(), turns[i].end());
        next.push_back(numbers.of(std::move(key)));
      }
      kind_ = std::move(next);
      kinds_ = numbers.count();
    }
    sign_calls();
  }

  void sign_calls() {
    Numbers numbers;
    out_.calls.clear();
    for (Family& f : families_) {
      f.sign.clear();
      for (std::size_t n = 0; n < f.members.size(); ++n) {
        std::vector<int> key;
        for (const int m : f.members[n]) key.push_back(nth(kind_, m));
        std::sort(key.begin(), key.end());
        key.erase(std::unique(key.begin(), key.end()), key.end());
        const int kinds = static_cast<int>(key.size());
        key.insert(key.end(), {-1, f.group, f.price[n]});
        f.sign.push_back(numbers.of(std::move(key)));
        if (numbers.count() > static_cast<int>(out_.calls.size()))
          out_.calls.push_back({f.group, kinds, nth(ranks_, f.members[n].front())});
      }
    }
  }

  void name_kinds() {
    for (const int leader : leaders(kind_, kinds_)) {
      RankKind kind;
      kind.rank = nth(ranks_, leader);
      kind.role = nth(p_.role_of_rank, kind.rank);
      kind.compiled = nth(compiled_, leader);
      kind.calls.assign(p_.groups.size(), -1);
      for (const Family& f : families_)
        if (const int n = nth(f.instance, leader); n >= 0) nth(kind.calls, f.group) = nth(f.sign, n);
      for (const Peer& peer : nth(peers_, leader)) {
        kind.peers.push_back(nth(kind_, peer.index));
        kind.peer_devices.push_back(peer.device);
      }
      out_.kinds.push_back(std::move(kind));
    }
  }

  struct Peer {
    int index;
    DeviceId device;
    int price, edge;
  };

  const Program& p_;
  const CostModel& cost_;
  const Cluster& cluster_;
  int steps_, lanes_ = 1;
  CallPrices& prices_;
  AxisSet matters_;
  RankLeaders leaders_;
  std::vector<Turn> turns_;
  WholePasses passes_;
  KindsOfRanks out_;
  std::vector<Axis> asked_;
  std::vector<int> ranks_;          ///< Those listed. All below by index into these.
  std::vector<int> index_of_rank_;  ///< Of others that of the one listed for them.
  std::vector<Family> families_;
  std::vector<int> class_;  ///< Of prices, whatever the role.
  std::vector<int> kind_, compiled_;
  std::vector<std::vector<Peer>> peers_;
  int kinds_ = 0, compiled_kinds_ = 0;
};

RankKindFinder::RankKindFinder(const Program& program, const CostModel& cost, int steps, CallPrices& prices)
    : impl_(std::make_unique<Impl>(program, cost, steps, prices)) {}
RankKindFinder::~RankKindFinder() = default;

KindsOfRanks RankKindFinder::find() { return impl_->find(); }

KindsOfRanks kinds_of_ranks(const Program& program, const CostModel& cost, int steps, CallPrices& prices) {
  return RankKindFinder(program, cost, steps, prices).find();
}

}  // namespace rehearse
