#include "core/play/player/traffic_plan.hpp"

#include <algorithm>
#include <limits>

#include "core/base/index.hpp"

namespace rehearse {

namespace {

/// Below this share of its time spent moving bytes a collective is a timer: its flows could not load a wire.
constexpr double kTimerOnlyShare = 0.02;

}  // namespace

bool TrafficPlanner::in_one_node(const Cast::Group& group) const {
  const NodeId first = cluster_.node_of(group.devices.front());
  return std::all_of(group.devices.begin(), group.devices.end(),
                     [&](DeviceId d) { return cluster_.node_of(d) == first; });
}

PlannedTraffic TrafficPlanner::collective(const Cast::Group& group, CollectiveOp op, double bytes,
                                          const CallOptions& options) const {
  PlannedTraffic out;
  if (group.devices.size() == 1) return out;
  const CollectiveModel& model = cost_.collectives();
  const CollectiveChoice choice = model.choose(op, Bytes{bytes}, group.devices, options);
  out.load = cost_.interference(op, choice, Bytes{bytes}, static_cast<int>(group.devices.size()),
                                nth(p_.device_of_rank, group.rank));
  out.latency = choice.time.value();
  const double moving = choice.time.value() - choice.latency.value();
  if (moving <= 0 || (!options_.all_flows && (moving < kTimerOnlyShare * choice.time.value() || in_one_node(group))))
    return out;
  const FluidPlan plan = model.plan(op, Bytes{bytes}, group.devices, options);
  Bytes most;
  for (const FluidEdge& e : plan.edges) most = max(most, e.bytes);
  out.flows.reserve(plan.edges.size());
  for (const FluidEdge& e : plan.edges)
    if (e.bytes > Bytes{0})
      out.flows.push_back({e.src, e.dst, e.bytes, plan.rate_cap * (e.bytes.value() / most.value())});
  if (!out.flows.empty()) out.latency = plan.latency.value();
  return out;
}

PlannedTraffic TrafficPlanner::message(const Cast::Channel& channel, double bytes) const {
  const DeviceId src = channel.src, dst = channel.dst;
  const CollectiveChoice choice = cost_.collectives().send(Bytes{bytes}, src, dst);
  PlannedTraffic out;
  out.latency = choice.latency.value();
  if (nth(p_.edges, channel.edge).blocking) out.wait = cost_.message_wait().value();
  out.load = cost_.interference(CollectiveOp::send_recv, choice, Bytes{bytes}, 2, nth(p_.device_of_rank, channel.rank));
  if (bytes <= 0 || src == dst) return out;
  out.narrowest = std::numeric_limits<double>::infinity();
  for (const LinkId l : cluster_.route(src, dst).links)
    out.narrowest = std::min(out.narrowest, cluster_.link_rate(l).value());
  out.flows.push_back({src, dst, Bytes{bytes}, choice.bandwidth});
  return out;
}

}  // namespace rehearse
