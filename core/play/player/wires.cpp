#include "core/play/player/wires.hpp"

#include <algorithm>
#include <numeric>

namespace rehearse {

namespace {

/// Few as a rule, and mostly the one that was looked for before.
void add_once(std::vector<Wires::Index>& list, Wires::Index item) {
  if (std::find(list.rbegin(), list.rend(), item) == list.rend()) list.push_back(item);
}

}  // namespace

Wires::Index Wires::index_of(LinkId link) {
  if (index_of_.empty()) index_of_.assign(static_cast<std::size_t>(cluster_.link_count()), -1);
  Index& known = nth(index_of_, link);
  if (known < 0) {
    known = static_cast<Index>(links_.size());
    links_.push_back(link);
    ways_.emplace_back();
  }
  return known;
}

bool Wires::add(std::span<const PlayClock::Flow> flows, int lanes, int lane_stride) {
  Bytes most;
  for (const PlayClock::Flow& f : flows) most = max(most, f.bytes);
  const auto first_flow = static_cast<std::uint32_t>(flows_.size());
  for (const PlayClock::Flow& f : flows) {
    const auto first = static_cast<std::uint32_t>(crossings_.size());
    const auto cross = [&](LinkId link) {
      const Index index = index_of(link);
      const auto begin = crossings_.begin() + static_cast<std::ptrdiff_t>(first);
      const auto at = std::find_if(begin, crossings_.end(), [&](const Crossing& c) { return c.link == index; });
      if (at == crossings_.end())
        crossings_.push_back({index, 1});
      else
        ++at->weight;
    };
    const auto take = [&](std::span<const LinkId> links, std::size_t length) {
      for (const LinkId link : links) cross(link);
      for (std::size_t lane = 0; lane < links.size(); lane += length) add_way(links.subspan(lane, length));
    };
    if (lanes == 1) {
      const auto links = cluster_.route(f.src, f.dst).links;
      if (links.empty()) return false;
      take(links, links.size());
    } else {
      const LaneRoute& route = routes_.find(f.src, f.dst, lanes, lane_stride);
      if (route.folded.empty()) return false;
      take(route.links, route.links.size() / static_cast<std::size_t>(lanes));
    }
    flows_.push_back({first, static_cast<std::uint32_t>(crossings_.size()) - first, f.bytes / most});
  }
  exchanges_.push_back({first_flow, static_cast<std::uint32_t>(flows_.size()) - first_flow});
  return true;
}

void Wires::add_way(std::span<const LinkId> links) {
  for (std::size_t i = 0; i < links.size(); ++i) {
    Ways& here = nth(ways_, nth(index_of_, links[i]));
    if (i == 0)
      here.begins = true;
    else
      add_once(here.before, nth(index_of_, links[i - 1]));
    if (i + 1 == links.size())
      here.ends = true;
    else
      add_once(here.after, nth(index_of_, links[i + 1]));
  }
}

bool Wires::held_by(Index link, const std::vector<Index>& neighbours) const {
  BytesPerSecond sum;
  for (const Index n : neighbours) {
    if (spare(n)) return false;
    sum += cluster_.link_rate(nth(links_, n));
  }
  return sum <= cluster_.link_rate(nth(links_, link));
}

void Wires::find_spare() {
  std::vector<Index> order(links_.size());
  std::iota(order.begin(), order.end(), 0);
  const auto rate = [this](Index i) { return cluster_.link_rate(nth(links_, i)); };
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return rate(a) > rate(b); });
  for (const Index i : order) {
    Ways& ways = nth(ways_, i);
    ways.spare = (!ways.begins && held_by(i, ways.before)) || (!ways.ends && held_by(i, ways.after));
  }
}

}  // namespace rehearse
