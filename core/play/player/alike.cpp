#include "core/play/player/alike.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>

#include <fmt/format.h>

#include "core/base/index.hpp"

namespace rehearse {

namespace {

using Index = std::int32_t;
/// A kind of call on one communicator: operation, bytes and options.
using CallKey = std::tuple<CollectiveOp, double, CallOptions>;

constexpr Index kNoFlows = -1;

/// A communicator or a channel: what is known of it at once, and its exchanges in Wires.
struct Partners {
  Fingerprint fixed;
  std::vector<Index> exchanges;
};

std::size_t distinct(std::vector<Fingerprint> all) {
  std::sort(all.begin(), all.end());
  return static_cast<std::size_t>(std::unique(all.begin(), all.end()) - all.begin());
}

/// Classes numbered in the order of their first members.
struct Classes {
  std::vector<Index> of;     ///< By item.
  std::vector<Index> first;  ///< By class.

  explicit Classes(const std::vector<Fingerprint>& all) {
    std::unordered_map<Fingerprint, Index, HashOfFingerprint> number;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto [at, fresh] = number.try_emplace(all[i], static_cast<Index>(first.size()));
      if (fresh) first.push_back(static_cast<Index>(i));
      of.push_back(at->second);
    }
  }
  [[nodiscard]] std::size_t size() const { return first.size(); }
};

/// The calls that actors make on a Program group, kind by kind.
class CallsOf {
 public:
  explicit CallsOf(const Cast& cast) : cast_(cast), made_(cast.compiled.size()) {
    for (std::size_t c = 0; c < cast.compiled.size(); ++c) {
      for (const PlayOp& op : cast.compiled[c].ops) {
        if (op.kind != PlayOp::Kind::collective) continue;
        auto& calls = made_[c][op.group];
        calls.resize(std::max(calls.size(), static_cast<std::size_t>(op.ordinal) + 1));
        nth(calls, op.ordinal) = {op.collective, op.bytes, {.packed = op.packed, .direct = op.direct}};
      }
    }
  }

  /// What partners bring to a call may differ; the most counts.
  const std::set<CallKey>& on(const Cast::Group& group) {
    std::set<int> compiled;
    for (const Index a : group.actors) compiled.insert(nth(cast_.actors, a).compiled);
    const auto [at, fresh] = known_.try_emplace({group.program_group, std::move(compiled)});
    if (!fresh) return at->second;
    std::vector<CallKey> calls;
    for (const int c : at->first.second) {
      const auto& more = nth(made_, c)[group.program_group];
      if (calls.size() < more.size()) calls.resize(more.size());
      for (std::size_t i = 0; i < more.size(); ++i)
        if (std::get<double>(more[i]) >= std::get<double>(calls[i])) calls[i] = more[i];
    }
    at->second.insert(calls.begin(), calls.end());
    return at->second;
  }

 private:
  const Cast& cast_;
  std::vector<std::map<int, std::vector<CallKey>>> made_;  // By compiled role and Program group, in order.
  std::map<std::pair<int, std::set<int>>, std::set<CallKey>> known_;
};

Fingerprint with_price(const Fingerprint& f, const PlannedTraffic& t) {
  const auto priced = f.with(t.latency).with(t.wait).with(t.narrowest).with(t.load.sm_share).with(t.load.hbm_share);
  if (t.flows.empty()) return priced;
  const auto most =
      std::max_element(t.flows.begin(), t.flows.end(), [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  return priced.with(most->bytes.value()).with(most->cap.value());
}

bool same_flows(const std::vector<PlayClock::Flow>& a, const std::vector<PlayClock::Flow>& b) {
  if (a.size() != b.size() || a.empty()) return false;
  const double scale = a.front().bytes / b.front().bytes;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].src != b[i].src || a[i].dst != b[i].dst || std::abs(a[i].bytes / (b[i].bytes * scale) - 1) > 1e-12)
      return false;
  return true;
}

}  // namespace

struct Alike::Impl {
  const Cluster& cluster;
  Cast& each;
  Wires wires;
  bool told = true;  // Whether all flows could be laid out.
  std::vector<Partners> groups, channels;
  std::vector<std::map<CallKey, Index>> exchange_of_call;  // By group: its place among the group's exchanges.
  std::vector<Fingerprint> actor, group, channel, flow, link;
  std::optional<Classes> actors, group_classes, channel_classes;
  std::vector<StandIns> stand_ins;  // By exchange; of those that are first of their class.
  std::vector<Index> played;        // By exchange: the one that is played for it.

  Impl(const Program& program, const Cluster& on, const TrafficPlanner& planner, Cast& cast)
      : cluster(on), each(cast), wires(on) {
    lay_out_groups(planner);
    lay_out_channels(planner);
    if (!told) return;
    wires.find_spare();
    refine(static_cast<Index>(program.groups.size()));
    actors.emplace(actor);
    group_classes.emplace(group);
    channel_classes.emplace(channel);
    if (actors->size() < each.actors.size()) choose_stand_ins();
  }

  void lay_out_groups(const TrafficPlanner& planner) {
    CallsOf calls(each);
    for (const Cast::Group& g : each.groups) {
      Partners partners{Fingerprint{}.with(g.program_group).with(g.lanes).with(g.devices.size()), {}};
      auto& places = exchange_of_call.emplace_back();
      std::vector<std::vector<PlayClock::Flow>> seen;
      for (const CallKey& call : calls.on(g)) {
        const auto& [op, bytes, options] = call;
        PlannedTraffic planned = planner.collective(g, op, bytes, options);
        Index place = kNoFlows;
        if (!planned.flows.empty()) {
          const auto at =
              std::find_if(seen.begin(), seen.end(), [&](const auto& s) { return same_flows(s, planned.flows); });
          place = static_cast<Index>(at - seen.begin());
          if (at == seen.end()) add_exchange(partners, planned.flows, g.lanes);
        }
        places[call] = place;
        partners.fixed = with_price(partners.fixed.with(static_cast<Index>(op))
                                        .with(bytes)
                                        .with(options.packed ? 1 : 0)
                                        .with(options.direct ? 1 : 0)
                                        .with(place),
                                    planned);
        if (place == static_cast<Index>(seen.size())) seen.push_back(std::move(planned.flows));
      }
      groups.push_back(std::move(partners));
    }
  }

  /// Edges that the role sends on, and the sizes of its messages.
  static std::set<std::pair<Index, double>> sends_of(const CompiledRole& role) {
    std::set<std::pair<Index, double>> out;
    for (const PlayOp& op : role.ops)
      if (op.kind == PlayOp::Kind::send) out.emplace(op.group, op.bytes);
    return out;
  }

  void lay_out_channels(const TrafficPlanner& planner) {
    std::vector<std::set<double>> bytes(each.channel_list.size());
    std::vector<std::optional<std::set<std::pair<Index, double>>>> sends_of_role(each.compiled.size());
    for (const Cast::Channel& c : each.channel_list) channels.push_back({Fingerprint{}.with(c.edge), {}});
    for (std::size_t a = 0; a < each.actors.size(); ++a) {
      const CompiledRole& role = nth(each.compiled, each.actors[a].compiled);
      // Two ends meet in one channel; which of its ends each is tells channels apart.
      std::map<Index, Fingerprint> places;
      for (std::size_t end = 0; end < each.channels[a].size(); ++end)
        places.try_emplace(each.channels[a][end]).first->second += Fingerprint{}.with(end);
      for (const auto& [c, place] : places) nth(channels, c).fixed += place;
      auto& sends = nth(sends_of_role, each.actors[a].compiled);
      if (!sends) sends = sends_of(role);
      for (const auto& [edge, size] : *sends) nth(bytes, nth(each.channels[a], edge * 2)).insert(size);
    }
    for (std::size_t c = 0; c < channels.size(); ++c) {
      for (const double b : bytes[c]) {
        const PlannedTraffic planned = planner.message(each.channel_list[c], b);
        channels[c].fixed = with_price(channels[c].fixed.with(b), planned);
        if (!planned.flows.empty() && channels[c].exchanges.empty())
          add_exchange(channels[c], planned.flows, each.lanes);
      }
    }
  }

  void add_exchange(Partners& partners, const std::vector<PlayClock::Flow>& flows, int lanes) {
    partners.exchanges.push_back(static_cast<Index>(wires.exchanges().size()));
    told = told && wires.add(flows, lanes, each.lane_stride);
  }

  // ---- classes

  void refine(Index program_groups) {
    for (const Actor& a : each.actors) actor.push_back(Fingerprint{}.with(a.compiled));
    for (const Partners& g : groups) group.push_back(g.fixed);
    for (const Partners& c : channels) channel.push_back(c.fixed);
    for (const LinkId l : wires.links()) link.push_back(Fingerprint{}.with(cluster.link_rate(l).value()));
    flow.resize(wires.flows().size());
    for (std::size_t before = 0, now = count(); now != before; now = count()) {
      before = now;
      tell_flows();
      tell_partners();
      tell_links();
      tell_actors(program_groups);
    }
  }

  [[nodiscard]] std::size_t count() const {
    return distinct(actor) + distinct(group) + distinct(channel) + distinct(link);
  }

  void tell_flows_of(const Partners& partners, const Fingerprint& owner) {
    for (std::size_t e = 0; e < partners.exchanges.size(); ++e) {
      const Wires::Exchange& exchange = nth(wires.exchanges(), partners.exchanges[e]);
      for (std::uint32_t f = exchange.first; f < exchange.first + exchange.count; ++f) {
        Fingerprint crossed;
        for (const auto& [l, weight] : wires.crossings(wires.flows()[f]))
          if (!wires.spare(l)) crossed += nth(link, l).with(weight);
        flow[f] = owner.with(e).with(wires.flows()[f].share).with(crossed);
      }
    }
  }

  void tell_flows() {
    for (std::size_t g = 0; g < groups.size(); ++g) tell_flows_of(groups[g], group[g]);
    for (std::size_t c = 0; c < channels.size(); ++c) tell_flows_of(channels[c], channel[c]);
  }

  [[nodiscard]] Fingerprint of_flows(const Partners& partners) const {
    Fingerprint sum;
    for (const Index e : partners.exchanges) {
      const Wires::Exchange& exchange = nth(wires.exchanges(), e);
      for (std::uint32_t f = exchange.first; f < exchange.first + exchange.count; ++f) sum += flow[f];
    }
    return sum;
  }

  void tell_partners() {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      Fingerprint members;
      for (const Index a : each.groups[g].actors) members += nth(actor, a);
      group[g] = group[g].with(members).with(of_flows(groups[g]));
    }
    for (std::size_t c = 0; c < channels.size(); ++c) {
      const Cast::Channel& ends = each.channel_list[c];
      channel[c] = channel[c].with(nth(actor, ends.from)).with(nth(actor, ends.to)).with(of_flows(channels[c]));
    }
  }

  void tell_links() {
    std::vector<Fingerprint> crossed(link.size());
    for (std::size_t f = 0; f < flow.size(); ++f)
      for (const auto& [l, weight] : wires.crossings(wires.flows()[f]))
        if (!wires.spare(l)) nth(crossed, l) += flow[f].with(weight);
    for (std::size_t l = 0; l < link.size(); ++l)
      if (!wires.spare(static_cast<Index>(l))) link[l] = link[l].with(crossed[l]);
  }

  void tell_actors(Index program_groups) {
    for (std::size_t a = 0; a < actor.size(); ++a) {
      Fingerprint f = actor[a];
      for (Index g = 0; g < program_groups; ++g) {
        const Index mine = each.group_of(static_cast<Index>(a), g);
        f = mine < 0 ? f.with(-1) : f.with(nth(group, mine));
      }
      for (const Index c : each.channels[a]) f = f.with(nth(channel, c));
      actor[a] = f;
    }
  }

  // ---- what is played

  /// For each class of flows its first one of the exchange that is played, and over which links it stands for all.
  void choose_stand_ins() {
    played.assign(wires.exchanges().size(), kNoFlows);
    stand_ins.resize(wires.exchanges().size());
    const auto choose = [&](const std::vector<Partners>& partners, const Classes& classes) {
      for (std::size_t i = 0; i < partners.size(); ++i)
        for (std::size_t e = 0; e < partners[i].exchanges.size(); ++e)
          nth(played, partners[i].exchanges[e]) = nth(partners, nth(classes.first, classes.of[i])).exchanges[e];
    };
    choose(groups, *group_classes);
    choose(channels, *channel_classes);
    const Classes flows(flow), links(link);
    const auto over = weights(flows, links);
    for (std::size_t e = 0; e < played.size(); ++e) {
      if (played[e] != static_cast<Index>(e)) continue;
      const Wires::Exchange& exchange = wires.exchanges()[e];
      std::set<Index> seen;
      for (std::uint32_t f = exchange.first; f < exchange.first + exchange.count; ++f)
        if (seen.insert(flows.of[f]).second)
          stand_ins[e].flows.push_back({static_cast<Index>(f - exchange.first), nth(over, flows.of[f])});
    }
  }

  /// For each class of flows, how much it weighs on one link of each class that it crosses.
  [[nodiscard]] std::vector<std::vector<PlayClock::Crossing>> weights(const Classes& flows,
                                                                      const Classes& links) const {
    std::vector<std::vector<PlayClock::Crossing>> over(flows.size());
    for (std::size_t f = 0; f < flow.size(); ++f) {
      for (const auto& [l, weight] : wires.crossings(wires.flows()[f])) {
        if (wires.spare(l) || nth(links.first, nth(links.of, l)) != l) continue;
        auto& crossed = nth(over, flows.of[f]);
        const LinkId id = nth(wires.links(), l);
        const auto at = std::find_if(crossed.begin(), crossed.end(), [&](const auto& c) { return c.link == id; });
        if (at == crossed.end())
          crossed.push_back({id, weight});
        else
          at->weight += weight;
      }
    }
    return over;
  }

  [[nodiscard]] Cast take_cast() {
    Cast out;
    out.compiled = std::move(each.compiled);
    out.lanes = each.lanes;
    out.lane_stride = each.lane_stride;
    for (const Index a : actors->first) out.actors.push_back(nth(each.actors, a));
    for (Actor& a : out.actors) a.ranks = 0;
    for (std::size_t a = 0; a < each.actors.size(); ++a) nth(out.actors, actors->of[a]).ranks += each.actors[a].ranks;
    for (const Index a : each.actor_of_rank) out.actor_of_rank.push_back(nth(actors->of, a));
    cast_groups(out);
    cast_channels(out);
    out.folding = fmt::format(
        "{} of {} {} are played, each for all that do equal work in groups that lie alike, over wires that carry equal "
        "traffic{}",
        out.actors.size(), each.actors.size(), each.lanes > 1 ? "tensor-parallel groups" : "ranks",
        each.lanes > 1
            ? fmt::format("; the {} ranks of such a group lie in one node, do equal work and are one, too", each.lanes)
            : "");
    return out;
  }

  void cast_groups(Cast& out) const {
    for (const Index g : group_classes->first) {
      Cast::Group group_played = nth(each.groups, g);
      for (Index& a : group_played.actors) a = nth(actors->of, a);
      std::sort(group_played.actors.begin(), group_played.actors.end());
      group_played.actors.erase(std::unique(group_played.actors.begin(), group_played.actors.end()),
                                group_played.actors.end());
      out.groups.push_back(std::move(group_played));
    }
    const std::size_t program_groups = each.group_index.size() / each.actors.size();
    for (std::size_t g = 0; g < program_groups; ++g)
      for (const Index a : actors->first) {
        const Index known = each.group_of(a, static_cast<int>(g));
        out.group_index.push_back(known < 0 ? known : nth(group_classes->of, known));
      }
  }

  void cast_channels(Cast& out) const {
    for (const Index c : channel_classes->first) {
      Cast::Channel channel_played = nth(each.channel_list, c);
      channel_played.from = nth(actors->of, channel_played.from);
      channel_played.to = nth(actors->of, channel_played.to);
      out.channel_list.push_back(channel_played);
    }
    for (const Index a : actors->first) {
      auto& ends = out.channels.emplace_back();
      for (const Index c : nth(each.channels, a)) ends.push_back(nth(channel_classes->of, c));
    }
  }

  [[nodiscard]] std::vector<double> link_bytes() const {
    std::vector<double> out(static_cast<std::size_t>(cluster.link_count()), 0.0);
    for (std::size_t e = 0; e < played.size(); ++e) {
      const double carried = nth(stand_ins, played[e]).carried;
      const Wires::Exchange& exchange = wires.exchanges()[e];
      for (std::uint32_t f = exchange.first; carried > 0 && f < exchange.first + exchange.count; ++f)
        for (const auto& [l, weight] : wires.crossings(wires.flows()[f]))
          nth(out, nth(wires.links(), l)) += carried * wires.flows()[f].share * weight;
    }
    return out;
  }
};

Alike::Alike(const Program& program, const Cluster& cluster, const TrafficPlanner& planner, Cast& each)
    : impl_(std::make_unique<Impl>(program, cluster, planner, each)) {}
Alike::~Alike() = default;

std::size_t Alike::actors() const { return impl_->actors ? impl_->actors->size() : impl_->each.actors.size(); }

std::int32_t Alike::actor_of(std::int32_t actor) const { return impl_->actors ? nth(impl_->actors->of, actor) : actor; }

Cast Alike::take_cast() { return impl_->take_cast(); }

const StandIns* Alike::collective(std::int32_t group, CollectiveOp op, double bytes, const CallOptions& options) const {
  const Index first = nth(impl_->group_classes->first, group);
  const Index place = nth(impl_->exchange_of_call, first).at({op, bytes, options});
  return place == kNoFlows ? nullptr : &nth(impl_->stand_ins, nth(nth(impl_->groups, first).exchanges, place));
}

const StandIns* Alike::message(std::int32_t channel) const {
  const auto& exchanges = nth(impl_->channels, nth(impl_->channel_classes->first, channel)).exchanges;
  return exchanges.empty() ? nullptr : &nth(impl_->stand_ins, exchanges.front());
}

std::vector<LinkId> Alike::links() const {
  std::set<LinkId> out;
  for (const StandIns& s : impl_->stand_ins)
    for (const StandIns::One& one : s.flows)
      for (const auto& [link, weight] : one.over) out.insert(link);
  return {out.begin(), out.end()};
}

std::vector<double> Alike::link_bytes() const { return impl_->link_bytes(); }

}  // namespace rehearse
