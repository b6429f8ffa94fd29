#include "core/play/clocks/analytic_clock.hpp"

#include <algorithm>
#include <stdexcept>

namespace rehearse {

AnalyticClock::AnalyticClock(const Cluster& cluster) : routes_(cluster) {}

PlayClock::TimerId AnalyticClock::set_timer(Seconds at, Token token) {
  return events_.push({std::max(at.value(), now_), events_.next_sequence(), token, false});
}

PlayClock::BundleId AnalyticClock::prepare(std::span<const Flow> flows, int lanes, int lane_stride) {
  if (flows.empty()) throw std::logic_error("a bundle of no flows");
  Bundle bundle{{}, 0};
  for (const Flow& flow : flows) {
    if (!(flow.bytes > Bytes{0}) || !(flow.cap > BytesPerSecond{0}))
      throw std::logic_error("flow of no bytes or at no rate");
    const LaneRoute& route = routes_.find(flow.src, flow.dst, lanes, lane_stride);
    bundle.members.push_back({&route, flow.bytes.value()});
    bundle.seconds = std::max(bundle.seconds, (flow.bytes / min(flow.cap, route.solo_rate)).value());
  }
  bundles_.push_back(std::move(bundle));
  return static_cast<BundleId>(bundles_.size() - 1);
}

void AnalyticClock::start(BundleId bundle, Token token) {
  if (free_.empty()) {
    free_.push_back(started_.size());
    started_.emplace_back();
  }
  const std::size_t index = free_.back();
  free_.pop_back();
  started_[index] = {bundle, token};
  events_.push({now_ + bundles_[bundle].seconds, events_.next_sequence(), index, true});
}

void AnalyticClock::run(Handler& handler) {
  while (!events_.empty()) {
    const auto event = events_.pop();
    now_ = event.time;
    if (!event.flow) {
      handler.on_timer(event.payload);
      continue;
    }
    const Started ended = started_[event.payload];
    free_.push_back(event.payload);
    for (const Member& m : bundles_[ended.bundle].members) m.route->carried += m.bytes;
    handler.on_flow(ended.token);
  }
}

}  // namespace rehearse
