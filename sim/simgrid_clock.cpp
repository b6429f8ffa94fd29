#include "sim/simgrid_clock.hpp"

#include <algorithm>
#include <stdexcept>

namespace rehearse::sim {

SimGridClock::SimGridClock(const Cluster& cluster)
    : routes_(cluster), facade_(cluster, *this), link_bytes_(static_cast<std::size_t>(cluster.link_count()), 0.0) {}

PlayClock::TimerId SimGridClock::set_timer(Seconds at, Token token) {
  return events_.push({std::max(at.value(), now_), events_.next_sequence(), token, false});
}

void SimGridClock::start_flow(DeviceId src, DeviceId dst, Bytes bytes, BytesPerSecond cap, int lanes, int lane_stride,
                              Token token) {
  if (!(bytes > Bytes{0}) || !(cap > BytesPerSecond{0})) throw std::logic_error("flow of no bytes or at no rate");
  const LaneRoute& route = routes_.find(src, dst, lanes, lane_stride);
  if (free_flows_.empty()) {
    free_flows_.push_back(flows_.size());
    flows_.emplace_back();
  }
  const std::size_t index = free_flows_.back();
  free_flows_.pop_back();
  flows_[index] = {&route, src, dst, bytes, cap, lanes, lane_stride, 0, events_.next_sequence(), token};
  waiting_.push_back(index);
}

void SimGridClock::run(Handler& handler) {
  handler_ = &handler;
  dispatch();
  if (under_way_ > 0 || !waiting_.empty()) facade_.run();
  handler_ = nullptr;
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  if (!events_.empty() || !waiting_.empty() || under_way_ > 0) throw std::logic_error("SimGrid ended before its flows did");
}

void SimGridClock::on_wake() {
  if (!facade_.flow_ends_pending()) dispatch();  // Else the last of those flows dispatches.
}

void SimGridClock::on_flow_end(std::uint64_t index, bool last) {
  --under_way_;
  const Flow& flow = flows_[index];
  if (--flows_[index].under_way == 0) events_.push({facade_.now(), flow.sequence, index, true});
  if (last) dispatch();
}

// Tells everything that is due, starts the flows asked for, and says when to be called next.
void SimGridClock::dispatch() {
  try {
    if (!failure_) deliver_due();
    if (!failure_) start_waiting();
  } catch (...) {
    failure_ = std::current_exception();
  }
  if (failure_) {
    events_.clear();
    waiting_.clear();
  }
  if (!waiting_.empty())
    facade_.wake_at(now_);
  else if (under_way_ > 0 && !events_.empty())
    facade_.wake_at(events_.next_time());
  else
    facade_.forget_wake();
}

void SimGridClock::deliver_due() {
  const double reached = facade_.now();
  while (!events_.empty()) {
    const double next = events_.next_time();
    const bool ahead_allowed = under_way_ == 0 && (waiting_.empty() || next <= now_);
    if (next > reached && !ahead_allowed) break;
    deliver(events_.pop());
  }
}

void SimGridClock::deliver(const EventQueue::Event& event) {
  now_ = std::max(now_, event.time);
  if (!event.flow) return handler_->on_timer(event.payload);
  const Flow flow = flows_[event.payload];
  free_flows_.push_back(event.payload);
  for (LinkId link : flow.route->links) link_bytes_[static_cast<std::size_t>(link)] += flow.bytes.value();
  handler_->on_flow(flow.token);
}

void SimGridClock::start_waiting() {
  if (facade_.now() < now_) return;
  for (std::size_t index : waiting_) start(index);
  waiting_.clear();
}

void SimGridClock::start(std::size_t index) {
  Flow& flow = flows_[index];
  const auto begin = [&](DeviceId src, DeviceId dst, const std::vector<LinkId>& links) {
    facade_.start_flow(src, dst, links, flow.bytes, flow.cap, index);
    ++flow.under_way;
    ++under_way_;
  };
  if (!flow.route->folded.empty()) return begin(flow.src, flow.dst, flow.route->folded);
  for (int j = 0; j < flow.lanes; ++j) {
    const DeviceId src = flow.src + j * flow.stride, dst = flow.dst + j * flow.stride;
    begin(src, dst, routes_.find(src, dst, 1, 0).links);
  }
}

}  // namespace rehearse::sim
