#include "core/play/clocks/lane_routes.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

#include "core/base/index.hpp"

namespace rehearse {
namespace {

using Lanes = std::vector<std::vector<LinkId>>;

/// Crossings per link over all lanes, sorted by link.
std::vector<std::pair<LinkId, int>> count_links(std::vector<LinkId> links) {
  std::sort(links.begin(), links.end());
  std::vector<std::pair<LinkId, int>> counts;
  for (LinkId link : links) {
    if (counts.empty() || counts.back().first != link) counts.emplace_back(link, 0);
    ++counts.back().second;
  }
  return counts;
}

/// How often each link of position `p` appears there, or 0 where lanes differ in it.
int weight_at(const Cluster& cluster, const Lanes& lanes, std::size_t p) {
  std::vector<LinkId> here;
  for (const auto& lane : lanes) here.push_back(lane[p]);
  const auto counts = count_links(std::move(here));
  for (const auto& [link, count] : counts)
    if (count != counts.front().second || cluster.link_rate(link) != cluster.link_rate(counts.front().first)) return 0;
  return counts.front().second;
}

/// Lane 0's route with weights, or nothing where the lanes don't look alike.
std::vector<LinkId> fold(const Cluster& cluster, const Lanes& lanes,
                         const std::vector<std::pair<LinkId, int>>& totals) {
  const auto& first = lanes.front();
  if (!std::all_of(lanes.begin(), lanes.end(), [&](const auto& lane) { return lane.size() == first.size(); }))
    return {};
  std::vector<int> weights;
  for (std::size_t p = 0; p < first.size(); ++p) weights.push_back(weight_at(cluster, lanes, p));
  for (const auto& lane : lanes)
    for (std::size_t p = 0; p < lane.size(); ++p) {
      const auto total = std::lower_bound(totals.begin(), totals.end(), std::pair{lane[p], 0});
      if (total->second != weights[p]) return {};  // Also crossed at another position, or weights[p] is 0.
    }
  std::vector<LinkId> folded;
  for (std::size_t p = 0; p < first.size(); ++p)
    folded.insert(folded.end(), static_cast<std::size_t>(weights[p]), first[p]);
  return folded;
}

}  // namespace

std::size_t LaneRoutes::KeyHash::operator()(const Key& key) const noexcept {
  auto mix = [](std::uint64_t h) { return (h ^ (h >> 29)) * 0x9e3779b97f4a7c15ULL; };
  const auto pair = [](int a, int b) {
    return std::uint64_t{static_cast<std::uint32_t>(a)} << 32 | static_cast<std::uint32_t>(b);
  };
  return static_cast<std::size_t>(mix(mix(pair(key.src, key.dst)) + pair(key.lanes, key.stride)));
}

const LaneRoute& LaneRoutes::find(DeviceId src, DeviceId dst, int lanes, int stride) {
  const Key key{src, dst, lanes, stride};
  if (auto at = cache_.find(key); at != cache_.end()) return *at->second;
  routes_.push_back(build(key));
  return *cache_.emplace(key, &routes_.back()).first->second;
}

const LaneRoute& LaneRoutes::stand_in(std::span<const PlayClock::Crossing> over) {
  LaneRoute route;
  route.solo_rate = BytesPerSecond{std::numeric_limits<double>::infinity()};
  for (const auto& [link, weight] : over) {
    route.folded.insert(route.folded.end(), static_cast<std::size_t>(weight), link);
    route.solo_rate = min(route.solo_rate, cluster_.link_rate(link) / weight);
  }
  routes_.push_back(std::move(route));
  return routes_.back();
}

std::vector<double> LaneRoutes::link_bytes(const std::vector<bool>& from) const {
  std::vector<double> bytes(static_cast<std::size_t>(cluster_.link_count()), 0.0);
  const auto counts = [&from](DeviceId src) {
    return from.empty() || (static_cast<std::size_t>(src) < from.size() && nth(from, src));
  };
  for (const LaneRoute& route : routes_)
    if (counts(route.src))
      for (const LinkId link : route.links) nth(bytes, link) += route.carried;
  return bytes;
}

std::vector<LinkId> LaneRoutes::lane_links(DeviceId src, DeviceId dst) const {
  const auto outside = [&](DeviceId d) { return d < 0 || d >= cluster_.device_count(); };
  if (outside(src) || outside(dst) || src == dst)
    throw std::logic_error(fmt::format("flow from device {} to device {} of {}", src, dst, cluster_.device_count()));
  auto links = cluster_.route(src, dst).links;
  if (links.empty()) throw std::logic_error(fmt::format("no wire from device {} to device {}", src, dst));
  return links;
}

LaneRoute LaneRoutes::build(const Key& key) const {
  if (key.lanes < 1) throw std::logic_error(fmt::format("flow of {} lanes", key.lanes));
  Lanes lanes;
  LaneRoute route;
  route.src = key.src;
  for (int j = 0; j < key.lanes; ++j) {
    lanes.push_back(lane_links(key.src + j * key.stride, key.dst + j * key.stride));
    route.links.insert(route.links.end(), lanes.back().begin(), lanes.back().end());
  }
  const auto totals = count_links(route.links);
  route.solo_rate = cluster_.link_rate(totals.front().first) / totals.front().second;
  for (const auto& [link, count] : totals) route.solo_rate = min(route.solo_rate, cluster_.link_rate(link) / count);
  route.folded = key.lanes == 1 ? route.links : fold(cluster_, lanes, totals);
  return route;
}

}  // namespace rehearse
