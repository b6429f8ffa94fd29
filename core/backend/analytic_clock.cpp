#include "core/backend/analytic_clock.hpp"

#include <algorithm>
#include <stdexcept>

namespace rehearse {

AnalyticClock::AnalyticClock(const Cluster& cluster)
    : routes_(cluster), link_bytes_(static_cast<std::size_t>(cluster.link_count()), 0.0) {}

PlayClock::TimerId AnalyticClock::set_timer(Seconds at, Token token) {
  return events_.push({std::max(at.value(), now_), events_.next_sequence(), token, false});
}

void AnalyticClock::start_flow(DeviceId src, DeviceId dst, Bytes bytes, BytesPerSecond cap, int lanes, int lane_stride,
                               Token token) {
  if (!(bytes > Bytes{0}) || !(cap > BytesPerSecond{0})) throw std::logic_error("flow of no bytes or at no rate");
  const LaneRoute& route = routes_.find(src, dst, lanes, lane_stride);
  if (free_flows_.empty()) {
    free_flows_.push_back(flows_.size());
    flows_.emplace_back();
  }
  const std::size_t index = free_flows_.back();
  free_flows_.pop_back();
  flows_[index] = {&route, bytes.value(), token};
  const Seconds duration = bytes / min(cap, route.solo_rate);
  events_.push({now_ + duration.value(), events_.next_sequence(), index, true});
}

void AnalyticClock::run(Handler& handler) {
  while (!events_.empty()) {
    const auto event = events_.pop();
    now_ = event.time;
    if (!event.flow) {
      handler.on_timer(event.payload);
      continue;
    }
    const Flow flow = flows_[event.payload];
    free_flows_.push_back(event.payload);
    for (LinkId link : flow.route->links) link_bytes_[static_cast<std::size_t>(link)] += flow.bytes;
    handler.on_flow(flow.token);
  }
}

}  // namespace rehearse
