#include "core/estimate/walk/call_prices.hpp"

#include <algorithm>

#include "core/base/index.hpp"

namespace rehearse {

const CallPrice& CallPrices::call(const Call& call) {
  const auto [at, fresh] = calls_.try_emplace(call);
  if (fresh) at->second = price(call);
  return at->second;
}

CallPrice CallPrices::price(const Call& c) {
  const GroupSpec& spec = nth(p_.groups, c.group);
  std::vector<DeviceId> devices;
  for (const int m : p_.mesh.members(spec, c.rank, p_.exprs)) devices.push_back(nth(p_.device_of_rank, m));
  if (devices.size() < 2) return {};
  const Bytes bytes{c.bytes};
  const CollectiveChoice choice = cost_.collectives().choose(c.op, bytes, devices, c.options);
  CallPrice out{
      choice.time.value(), 0,
      cost_.interference(c.op, choice, bytes, static_cast<int>(devices.size()), nth(p_.device_of_rank, c.rank))};
  // A group across the lanes is one call; others are as many calls as lanes, side by side.
  const Cluster& cluster = cost_.cluster();
  const bool one_node = std::all_of(devices.begin(), devices.end(),
                                    [&](DeviceId d) { return cluster.node_of(d) == cluster.node_of(devices.front()); });
  if (messages_.lanes() > 1 && !one_node && !spec.axes.contains(Axis::tp) && !spec.axes.contains(Axis::etp) &&
      choice.time > choice.latency)
    out.seconds = std::max(out.seconds, on_lanes(c, devices));
  return out;
}

/// Where lanes share a wire each gets its part of it.
double CallPrices::on_lanes(const Call& c, const std::vector<DeviceId>& devices) {
  const FluidPlan plan = cost_.collectives().plan(c.op, Bytes{c.bytes}, devices, c.options);
  double most = 0, slowest = 0;
  for (const FluidEdge& e : plan.edges) most = std::max(most, e.bytes.value());
  for (const FluidEdge& e : plan.edges) {
    if (e.bytes <= Bytes{0}) continue;
    const BytesPerSecond cap = plan.rate_cap * (e.bytes.value() / most);
    slowest = std::max(slowest, (e.bytes / min(cap, messages_.solo_rate(e.src, e.dst))).value());
  }
  return slowest + plan.latency.value();
}

const CallPrice& MessagePrices::price(const Message& m) {
  const auto [at, fresh] = known_.try_emplace(m);
  CallPrice& out = at->second;
  if (!fresh) return out;
  const Bytes bytes{m.bytes};
  const CollectiveChoice choice = cost_.collectives().send(bytes, m.from, m.to);
  out = {choice.latency.value(), 0, cost_.interference(CollectiveOp::send_recv, choice, bytes, 2, m.from)};
  if (bytes > Bytes{0} && m.from != m.to)
    out.seconds += (bytes / min(choice.bandwidth, solo_rate(m.from, m.to))).value();
  if (m.blocking) out.wait = cost_.message_wait().value();
  return out;
}

}  // namespace rehearse
