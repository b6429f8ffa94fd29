#include "sim/link_loads.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rehearse::sim {
namespace {

constexpr std::int64_t kFull = std::int64_t{1} << 42;
constexpr std::int64_t kLimit = kFull + (std::int64_t{1} << 10);
constexpr std::uint32_t kNowhere = std::numeric_limits<std::uint32_t>::max();

}  // namespace

LinkLoads::LinkLoads(const Cluster& cluster) {
  links_.reserve(static_cast<std::size_t>(cluster.link_count()));
  for (LinkId l = 0; l < cluster.link_count(); ++l) links_.push_back({cluster.link_rate(l).value(), 0, {}});
}

std::vector<LinkLoads::Ask> LinkLoads::asks(std::span<const LinkId> links, BytesPerSecond demand) const {
  std::vector<Ask> out;
  for (std::size_t i = 0, next = 0; i < links.size(); i = next) {
    while (next < links.size() && links[next] == links[i]) ++next;
    const double share = static_cast<double>(next - i) * demand.value() / link(links[i]).rate;
    out.push_back({links[i], static_cast<std::int64_t>(std::llround(share * static_cast<double>(kFull)))});
  }
  return out;
}

void LinkLoads::book(FlowId flow, std::span<const Ask> asks) {
  if (flow >= hops_.size()) hops_.resize(flow + 1);
  for (const Ask& ask : asks) {
    Link& crossed = link(ask.link);
    if (crossed.booked <= kLimit && crossed.booked + ask.parts > kLimit) newly_overloaded_.push_back(ask.link);
    crossed.booked += ask.parts;
    hops_[flow].push_back({ask.link, ask.parts, kNowhere});
  }
}

bool LinkLoads::overloaded(FlowId flow) const {
  const auto& hops = hops_[flow];
  return std::any_of(hops.begin(), hops.end(), [&](const Hop& hop) { return link(hop.link).booked > kLimit; });
}

void LinkLoads::set_free(FlowId flow) {
  auto& hops = hops_[flow];
  for (std::uint32_t h = 0; h < hops.size(); ++h) {
    auto& free = link(hops[h].link).free;
    hops[h].at = static_cast<std::uint32_t>(free.size());
    free.push_back({flow, h});
  }
}

void LinkLoads::set_solved(FlowId flow) {
  for (Hop& hop : hops_[flow]) {
    if (hop.at == kNowhere) continue;
    auto& free = link(hop.link).free;
    const Place moved = free[hop.at] = free.back();
    hops_[moved.flow][moved.hop].at = hop.at;
    free.pop_back();
    hop.at = kNowhere;
  }
}

void LinkLoads::release(FlowId flow) {
  if (flow >= hops_.size()) return;
  set_solved(flow);
  for (const Hop& hop : hops_[flow]) link(hop.link).booked -= hop.booked;
  hops_[flow].clear();
}

std::vector<LinkLoads::FlowId> LinkLoads::squeezed() const {
  std::vector<FlowId> flows;
  for (LinkId id : newly_overloaded_) {
    if (link(id).booked <= kLimit) continue;
    for (const Place& place : link(id).free) flows.push_back(place.flow);
  }
  std::sort(flows.begin(), flows.end());
  flows.erase(std::unique(flows.begin(), flows.end()), flows.end());
  return flows;
}

}  // namespace rehearse::sim
