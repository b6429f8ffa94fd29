#include "sim/simgrid_clock.hpp"

#include <algorithm>
#include <stdexcept>

namespace rehearse::sim {

namespace {

/// What ends this soon has ended for SimGrid (simgrid_facade.hpp); seconds.
constexpr double kTimePrecision = 1e-11;

}  // namespace

SimGridClock::SimGridClock(const Cluster& cluster, Solved solved)
    : routes_(cluster), facade_(cluster, *this), solved_(solved), loads_(cluster), link_bytes_(static_cast<std::size_t>(cluster.link_count()), 0.0) {}

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
  if (solving_ > 0 || !for_solver_.empty()) facade_.run();
  handler_ = nullptr;
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  if (!events_.empty() || !for_solver_.empty() || solving_ > 0) throw std::logic_error("SimGrid ended before its flows did");
}

void SimGridClock::on_wake() {
  if (!facade_.flow_ends_pending()) dispatch();  // Else the last of those flows dispatches.
}

void SimGridClock::on_flow_end(std::uint64_t transfer, bool last) {
  --solving_;
  events_.push({facade_.now(), flows_[transfers_[transfer].flow].sequence, transfer, true});
  if (last) dispatch();
}

// Goes on as far as SimGrid's next event, and says when to be called next.
void SimGridClock::dispatch() {
  try {
    if (!failure_) advance();
  } catch (...) {
    failure_ = std::current_exception();
  }
  if (failure_) abandon();
  if (!for_solver_.empty())
    facade_.wake_at(now_);
  else if (solving_ > 0 && !events_.empty())
    facade_.wake_at(events_.next_time());
  else
    facade_.forget_wake();
}

void SimGridClock::abandon() {
  events_.clear();
  waiting_.clear();
  for_solver_.clear();
}

void SimGridClock::advance() {
  do {
    deliver_due();
    admit_waiting();
    if (!for_solver_.empty() && facade_.now() >= now_) hand_over();
  } while (for_solver_.empty() && !events_.empty() && (solving_ == 0 || events_.next_time() <= facade_.now()));
}

// While SimGrid has no flow, all is due; with flows about to start, what is due with them.
void SimGridClock::deliver_due() {
  const double reached = facade_.now();
  while (!events_.empty()) {
    const double next = events_.next_time();
    const bool ahead_allowed = solving_ == 0 && ((waiting_.empty() && for_solver_.empty()) || next <= now_);
    if (next > reached && !ahead_allowed) break;
    deliver(events_.pop());
  }
}

void SimGridClock::deliver(const EventQueue::Event& event) {
  now_ = std::max(now_, event.time);
  if (!event.flow) return handler_->on_timer(event.payload);
  const auto id = static_cast<TransferId>(event.payload);
  loads_.release(id);
  free_transfers_.push_back(id);
  const std::size_t index = transfers_[id].flow;
  if (--flows_[index].under_way > 0) return;
  const Flow flow = flows_[index];
  free_flows_.push_back(index);
  for (LinkId link : flow.route->links) link_bytes_[static_cast<std::size_t>(link)] += flow.bytes.value();
  handler_->on_flow(flow.token);
}

void SimGridClock::admit_waiting() {
  for (std::size_t index : waiting_) add_transfers(index);
  waiting_.clear();
  if (solved_ == Solved::all) {
    for_solver_.insert(for_solver_.end(), newcomers_.begin(), newcomers_.end());
  } else {
    make_room();
    for (TransferId id : newcomers_)
      if (loads_.overloaded(id)) for_solver_.push_back(id);
      else run_free(id);
  }
  newcomers_.clear();
}

void SimGridClock::add_transfers(std::size_t index) {
  const Flow& flow = flows_[index];
  if (!flow.route->folded.empty()) return add_transfer(index, *flow.route, flow.src, flow.dst);
  for (int j = 0; j < flow.lanes; ++j) {
    const DeviceId src = flow.src + j * flow.stride, dst = flow.dst + j * flow.stride;
    add_transfer(index, routes_.find(src, dst, 1, 0), src, dst);
  }
}

void SimGridClock::add_transfer(std::size_t index, const LaneRoute& route, DeviceId src, DeviceId dst) {
  if (free_transfers_.empty()) {
    free_transfers_.push_back(static_cast<TransferId>(transfers_.size()));
    transfers_.emplace_back();
  }
  const TransferId id = free_transfers_.back();
  free_transfers_.pop_back();
  Flow& flow = flows_[index];
  ++flow.under_way;
  const BytesPerSecond rate = min(flow.cap, route.solo_rate);
  transfers_[id] = {index, &route, src, dst, rate, now_, now_, flow.bytes, 0};
  if (solved_ == Solved::contended) loads_.book(id, route.folded, rate);
  newcomers_.push_back(id);
}

// Takes free transfers off the links that newcomers overload: to their end if they are there, else to SimGrid.
void SimGridClock::make_room() {
  for (TransferId id : loads_.squeezed())
    if (transfers_[id].end - now_ <= kTimePrecision) loads_.release(id);
  for (TransferId id : loads_.squeezed()) {
    Transfer& transfer = transfers_[id];
    events_.cancel(transfer.event);
    loads_.set_solved(id);
    transfer.left -= transfer.rate * Seconds{now_ - transfer.start};
    for_solver_.push_back(id);
  }
  loads_.forget_overloads();
}

void SimGridClock::run_free(TransferId id) {
  Transfer& transfer = transfers_[id];
  transfer.end = transfer.start + (transfer.left / transfer.rate).value();
  loads_.set_free(id);
  transfer.event = events_.push({transfer.end, flows_[transfer.flow].sequence, id, true});
}

void SimGridClock::hand_over() {
  for (TransferId id : for_solver_) {
    const Transfer& transfer = transfers_[id];
    facade_.start_flow(transfer.src, transfer.dst, transfer.route->folded, transfer.left, flows_[transfer.flow].cap, id);
    ++solving_;
    ++solver_flows_;
  }
  for_solver_.clear();
}

}  // namespace rehearse::sim
