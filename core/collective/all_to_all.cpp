#include "core/collective/all_to_all.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <string>

#include "core/base/error.hpp"
#include "core/collective/traffic.hpp"

namespace rehearse::traffic {
namespace {

/// Sets that merge.
class Classes {
 public:
  explicit Classes(std::size_t n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), 0); }
  std::size_t find(std::size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(std::size_t a, std::size_t b) { parent_[find(a)] = find(b); }

 private:
  std::vector<std::size_t> parent_;
};

/// What is sent and received at one level, in parts (what one rank sends another), by place.
struct Level {
  explicit Level(std::size_t places)
      : sent(places, 0), received(places, 0), together(places), sender(places), receiver(places) {}
  std::vector<int> sent, received;
  Classes together;                                   ///< Places that this level or a lower one joins.
  std::vector<std::vector<LinkId>> sender, receiver;  ///< A route of each place, to compare the others with.
  std::vector<char> by_sender, by_receiver;           ///< Whether the link at this position depends on that end only.
};

class Aggregate {
 public:
  Aggregate(const Cluster& cluster, const GroupLayout& g, Bytes part)
      : cluster_(cluster), part_(part), place_of_(static_cast<std::size_t>(cluster.device_count())) {
    int nics = 1;
    for (const auto& n : g.nodes) {
      nodes_.push_back(n.devices);
      gpus_ = std::max(gpus_, std::size_t(cluster.machine(n.node).gpus));
      nics = std::max(nics, cluster.machine(n.node).nics);
      for (int local = 0; local < cluster.machine(n.node).gpus; ++local) {
        devices_.push_back(cluster.first_device(n.node) + local);
        place_of_[std::size_t(devices_.back())] = devices_.size() - 1;
      }
    }
    nics_ = std::size_t(nics);
    relay_.assign(devices_.size() * nics_, -1);
    hop_.resize(devices_.size() * gpus_);
    inside_.assign(devices_.size() * gpus_, 0);
  }

  std::optional<std::vector<FluidEdge>> run() {
    for (std::size_t a = 0; a < nodes_.size(); ++a)
      for (const DeviceId from : nodes_[a])
        for (std::size_t b = 0; b < nodes_.size(); ++b)
          for (const DeviceId to : nodes_[b])
            if (from != to && !(a == b ? inside(from, to) : outside(from, to))) return {};
    if (!split()) return {};
    Classes below(devices_.size());
    for (auto& [length, level] : levels_) {
      for (std::size_t p = 0; p < devices_.size(); ++p) level.together.join(p, below.find(p));
      if (!turn(level, length, below)) return {};
      below = level.together;
    }
    std::vector<FluidEdge> out;
    for (std::size_t i = 0; i < inside_.size(); ++i) {
      const DeviceId from = devices_[i / gpus_];
      if (inside_[i] > 0)
        out.push_back(
            {from, cluster_.first_device(cluster_.node_of(from)) + DeviceId(i % gpus_), part_ * double(inside_[i])});
    }
    out.insert(out.end(), edges_.begin(), edges_.end());
    return merged(std::move(out));
  }

 private:
  /// Of a table by sender and GPU of its node.
  [[nodiscard]] std::size_t local_slot(DeviceId from, DeviceId to) const {
    return place(from) * gpus_ + std::size_t(cluster_.local_index(to));
  }
  [[nodiscard]] std::size_t place(DeviceId d) const { return place_of_[std::size_t(d)]; }

  bool inside(DeviceId from, DeviceId to) {
    ++inside_[local_slot(from, to)];
    return true;
  }

  /// The GPU of `from`'s node that a message for `to` leaves through: of the other end's rail where routes go there
  /// first.
  DeviceId relay(DeviceId from, DeviceId to, std::span<const LinkId> route) {
    DeviceId& known = relay_[place(from) * nics_ + std::size_t(std::max(0, cluster_.nic_of(to)))];
    if (known >= 0) return known;
    known = from;
    const NodeId node = cluster_.node_of(from);
    for (DeviceId r = cluster_.first_device(node); r < cluster_.first_device(node) + cluster_.machine(node).gpus; ++r) {
      if (r == from || cluster_.nic_of(r) != cluster_.nic_of(to)) continue;
      const auto first = cluster_.route(from, r).links;
      if (first.size() < route.size() && std::equal(first.begin(), first.end(), route.begin())) known = r;
    }
    return known;
  }

  bool outside(DeviceId from, DeviceId to) {
    const auto whole = cluster_.route(from, to).links;
    std::span<const LinkId> rest = whole;
    const DeviceId port = relay(from, to, whole);
    if (port != from) {
      auto& hop = hop_[local_slot(from, port)];
      if (hop.empty()) hop = cluster_.route(from, port).links;
      if (hop.size() >= rest.size() || !std::equal(hop.begin(), hop.end(), rest.begin())) return false;
      rest = rest.subspan(hop.size());
      inside(from, port);
    }
    Level& level = levels_.try_emplace(rest.size(), devices_.size()).first->second;
    const std::size_t a = place(port), b = place(to);
    ++level.sent[a];
    ++level.received[b];
    level.together.join(a, b);
    compare(level.sender[a], level.by_sender, rest);
    compare(level.receiver[b], level.by_receiver, rest);
    return true;
  }

  static void compare(std::vector<LinkId>& seen, std::vector<char>& equal, std::span<const LinkId> route) {
    equal.resize(route.size(), 1);
    if (seen.empty()) seen.assign(route.begin(), route.end());
    for (std::size_t i = 0; i < route.size(); ++i) equal[i] = char(equal[i] && seen[i] == route[i]);
  }

  /// Whether every link of every route depends on one end only.
  [[nodiscard]] bool split() const {
    return std::all_of(levels_.begin(), levels_.end(), [](const auto& entry) {
      const Level& level = entry.second;
      for (std::size_t i = 0; i < level.by_sender.size(); ++i)
        if (!level.by_sender[i] && !level.by_receiver[i]) return false;
      return true;
    });
  }

  /// Flows of one level: per set of places that it joins, senders against receivers half a turn on.
  bool turn(Level& level, std::size_t length, Classes& below) {
    std::map<std::size_t, std::vector<std::size_t>> sets;
    for (std::size_t p = 0; p < devices_.size(); ++p)
      if (level.sent[p] > 0 || level.received[p] > 0) sets[level.together.find(p)].push_back(p);
    for (auto& [name, places] : sets) {
      std::stable_sort(places.begin(), places.end(),
                       [&](std::size_t a, std::size_t b) { return below.find(a) < below.find(b); });
      if (!pair_up(level, length, places)) return false;
    }
    return true;
  }

  bool pair_up(const Level& level, std::size_t length, const std::vector<std::size_t>& places) {
    long total = 0, arriving = 0;
    for (const std::size_t p : places) {
      total += level.sent[p];
      arriving += level.received[p];
    }
    if (total != arriving) return false;
    std::size_t to = 0;
    long left = level.received[places[0]];
    const auto next = [&] { left = level.received[places[to = (to + 1) % places.size()]]; };
    for (long skip = total / 2; skip > 0;) {
      const long step = std::min(skip, left);
      skip -= step;
      if ((left -= step) == 0) next();
    }
    const std::size_t first_to = to;
    const long first_used = level.received[places[to]] - left;
    for (const std::size_t from : places) {
      for (long sending = level.sent[from]; sending > 0;) {
        const long step = std::min(sending, left);
        if (step > 0 && !add(devices_[from], devices_[places[to]], length, step)) return false;
        sending -= step;
        if ((left -= step) > 0) continue;
        next();
        if (to == first_to) left = first_used;  // Round again: what was skipped in front.
      }
    }
    return true;
  }

  bool add(DeviceId from, DeviceId to, std::size_t length, long parts) {
    if (cluster_.node_of(from) == cluster_.node_of(to) || cluster_.route(from, to).links.size() != length) return false;
    edges_.push_back({from, to, part_ * double(parts)});
    return true;
  }

  const Cluster& cluster_;
  const Bytes part_;
  std::vector<std::vector<DeviceId>> nodes_;
  std::vector<DeviceId> devices_;         // By place: all GPUs of the nodes concerned, some of which may only relay.
  std::vector<std::size_t> place_of_;     // By device.
  std::size_t gpus_ = 1, nics_ = 1;       // Most in a node.
  std::vector<DeviceId> relay_;           // By sender and NIC at the other end.
  std::vector<std::vector<LinkId>> hop_;  // Routes inside nodes, by sender and GPU.
  std::vector<int> inside_;               // Parts that move inside nodes, by sender and GPU.
  std::map<std::size_t, Level> levels_;   // By route length.
  std::vector<FluidEdge> edges_;
};

}  // namespace

std::vector<FluidEdge> all_pairs(const GroupLayout& g, Bytes bytes) {
  const Bytes part = bytes / double(g.ranks);
  std::vector<FluidEdge> out;
  for (const auto& a : g.nodes)
    for (const DeviceId from : a.devices)
      for (const auto& b : g.nodes)
        for (const DeviceId to : b.devices)
          if (from != to) out.push_back({from, to, part});
  return out;
}

std::optional<std::vector<FluidEdge>> few_for_all_pairs(const Cluster& cluster, const GroupLayout& g, Bytes bytes) {
  return Aggregate(cluster, g, bytes / double(g.ranks)).run();
}

std::vector<FluidEdge> all_to_all(const Cluster& cluster, const GroupLayout& g, Bytes bytes) {
  if (g.ranks <= kPairLimit) return all_pairs(g, bytes);
  if (g.ranks <= kCheckLimit)
    if (auto few = few_for_all_pairs(cluster, g, bytes)) return *std::move(few);
  if (g.ranks <= kAllPairsLimit) return all_pairs(g, bytes);
  throw Error(ErrorKind::unavailable,
              "an all-to-all of " + std::to_string(g.ranks) + " ranks on this fabric is more flows than can be played",
              "collective",
              "groups of up to " + std::to_string(kAllPairsLimit) + " ranks can be played anywhere, of " +
                  std::to_string(kCheckLimit) + " where routes climb a tree of switches");
}

}  // namespace rehearse::traffic
