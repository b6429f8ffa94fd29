#include "core/play/player/traffic_book.hpp"

#include <algorithm>
#include <limits>

#include "core/base/index.hpp"

namespace rehearse {

namespace {

/// Below this share of its time spent moving bytes a collective is a timer: its flows could not load a wire.
constexpr double kTimerOnlyShare = 0.02;

}  // namespace

TrafficBook::TrafficBook(const Program& program, const Cluster& cluster, const CostModel& cost,
                         const RunOptions& options, const Cast& cast, PlayClock& clock)
    : p_(program),
      cluster_(cluster),
      cost_(cost),
      options_(options),
      cast_(cast),
      clock_(clock),
      messages_(cast.channel_list.size()) {}

const TrafficBook::Call& TrafficBook::collective(std::int32_t group, CollectiveOp op, double bytes,
                                                 const CallOptions& options) {
  const auto key = std::tuple(group, op, bytes, options);
  const auto at = collectives_.find(key);
  if (at != collectives_.end()) return at->second;
  return collectives_.emplace(key, make_collective(nth(cast_.groups, group), op, bytes, options)).first->second;
}

bool TrafficBook::in_one_node(const Cast::Group& group) const {
  const NodeId first = cluster_.node_of(group.devices.front());
  return std::all_of(group.devices.begin(), group.devices.end(),
                     [&](DeviceId d) { return cluster_.node_of(d) == first; });
}

TrafficBook::Call TrafficBook::make_collective(const Cast::Group& group, CollectiveOp op, double bytes,
                                               const CallOptions& options) {
  Call call;
  if (group.devices.size() == 1) return call;
  const CollectiveModel& model = cost_.collectives();
  const CollectiveChoice choice = model.choose(op, Bytes{bytes}, group.devices, options);
  const int rank = nth(cast_.actors, group.actors.front()).rank;
  call.load = cost_.interference(op, choice, Bytes{bytes}, static_cast<int>(group.devices.size()), rank, p_);
  call.latency = choice.time.value();
  const double moving = choice.time.value() - choice.latency.value();
  if (moving <= 0 || (!options_.all_flows && (moving < kTimerOnlyShare * choice.time.value() || in_one_node(group))))
    return call;
  const FluidPlan plan = model.plan(op, Bytes{bytes}, group.devices, options);
  Bytes most;
  for (const FluidEdge& e : plan.edges) most = max(most, e.bytes);
  std::vector<PlayClock::Flow> flows;
  for (const FluidEdge& e : plan.edges)
    if (e.bytes > Bytes{0}) flows.push_back({e.src, e.dst, e.bytes, plan.rate_cap * (e.bytes.value() / most.value())});
  if (flows.empty()) return call;
  call.latency = plan.latency.value();
  call.flows = static_cast<int>(flows.size());
  call.bundle = clock_.prepare(flows, group.lanes, cast_.lane_stride);
  return call;
}

const TrafficBook::Call& TrafficBook::message(std::int32_t channel, double bytes) {
  auto& sizes = nth(messages_, channel);
  const auto at = std::find_if(sizes.begin(), sizes.end(), [&](const Sized& s) { return s.bytes == bytes; });
  if (at != sizes.end()) return at->call;
  sizes.push_back({bytes, make_message(nth(cast_.channel_list, channel), bytes)});
  return sizes.back().call;
}

TrafficBook::Call TrafficBook::make_message(const Cast::Channel& channel, double bytes) {
  const Actor& from = nth(cast_.actors, channel.from);
  const DeviceId src = from.device, dst = nth(cast_.actors, channel.to).device;
  const CollectiveChoice choice = cost_.collectives().send(Bytes{bytes}, src, dst);
  Call call;
  call.latency = choice.latency.value();
  if (nth(p_.edges, channel.edge).blocking) call.wait = cost_.message_wait().value();
  call.load = cost_.interference(CollectiveOp::send_recv, choice, Bytes{bytes}, 2, from.rank, p_);
  if (bytes <= 0 || src == dst) return call;
  call.narrowest = std::numeric_limits<double>::infinity();
  for (const LinkId l : cluster_.route(src, dst).links)
    call.narrowest = std::min(call.narrowest, cluster_.link_rate(l).value());
  const PlayClock::Flow flow{src, dst, Bytes{bytes}, choice.bandwidth};
  call.flows = 1;
  call.bundle = clock_.prepare({&flow, 1}, cast_.lanes, cast_.lane_stride);
  return call;
}

}  // namespace rehearse
