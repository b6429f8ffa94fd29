#include "sim/simgrid_clock.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>

namespace rehearse::sim {

namespace {

/// What ends this soon has ended for SimGrid (simgrid_facade.hpp); seconds.
constexpr double kTimePrecision = 1e-11;

}  // namespace

SimGridClock::SimGridClock(const Cluster& cluster, Solved solved)
    : routes_(cluster), facade_(cluster, *this), solved_(solved), loads_(cluster) {}

PlayClock::TimerId SimGridClock::set_timer(Seconds at, Token token) {
  return events_.push({std::max(at.value(), now_), events_.next_sequence(), token, false});
}

PlayClock::BundleId SimGridClock::prepare(std::span<const Flow> flows, int lanes, int lane_stride) {
  if (flows.empty()) throw std::logic_error("a bundle of no flows");
  Bundle bundle;
  std::map<double, std::size_t> stage_of;
  const auto add = [&](const Flow& flow, const LaneRoute& route) {
    const BytesPerSecond rate = min(flow.cap, route.solo_rate);
    const double seconds = (flow.bytes / rate).value();
    const auto [at, fresh] = stage_of.try_emplace(seconds, bundle.stages.size());
    if (fresh) bundle.stages.push_back({seconds, {}, {}});
    bundle.stages[at->second].transfers.push_back({&route, flow.bytes, flow.cap, rate});
  };
  for (const Flow& flow : flows) {
    if (!(flow.bytes > Bytes{0}) || !(flow.cap > BytesPerSecond{0}))
      throw std::logic_error("flow of no bytes or at no rate");
    if (flow.over != nullptr) {
      add(flow, routes_.stand_in(*flow.over));
      continue;
    }
    const LaneRoute& all = routes_.find(flow.src, flow.dst, lanes, lane_stride);
    if (!all.folded.empty()) {
      add(flow, all);
      continue;
    }
    for (int j = 0; j < lanes; ++j)
      add(flow, routes_.find(flow.src + j * lane_stride, flow.dst + j * lane_stride, 1, 0));
  }
  for (Stage& stage : bundle.stages) stage.asks = asks_of(stage);
  bundles_.push_back(std::move(bundle));
  return static_cast<BundleId>(bundles_.size() - 1);
}

/// Of all transfers together, each link once.
std::vector<LinkLoads::Ask> SimGridClock::asks_of(const Stage& stage) const {
  std::vector<LinkLoads::Ask> out;
  for (const Transfer& t : stage.transfers) {
    const auto asks = loads_.asks(t.route->folded, t.rate);
    out.insert(out.end(), asks.begin(), asks.end());
  }
  if (stage.transfers.size() == 1) return out;
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.link < b.link; });
  std::size_t kept = 0;
  for (const auto& ask : out)
    if (kept > 0 && out[kept - 1].link == ask.link)
      out[kept - 1].parts += ask.parts;
    else
      out[kept++] = ask;
  out.resize(kept);
  return out;
}

void SimGridClock::start(BundleId bundle, Token token) {
  if (free_started_.empty()) {
    free_started_.push_back(started_.size());
    started_.emplace_back();
  }
  const std::size_t index = free_started_.back();
  free_started_.pop_back();
  started_[index] = {bundle, 0, events_.next_sequence(), token};
  waiting_.push_back(index);
}

void SimGridClock::run(Handler& handler) {
  handler_ = &handler;
  dispatch();
  if (solving_ > 0 || !for_solver_.empty()) facade_.run();
  handler_ = nullptr;
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  if (!events_.empty() || !for_solver_.empty() || solving_ > 0)
    throw std::logic_error("SimGrid ended before its flows did");
}

void SimGridClock::on_wake() {
  if (!facade_.flow_ends_pending()) dispatch();  // Else the last of those flows dispatches.
}

void SimGridClock::on_flow_end(std::uint64_t unit, bool last) {
  --solving_;
  events_.push({facade_.now(), started_[units_[unit].started].sequence, unit, true});
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
  const auto id = static_cast<UnitId>(event.payload);
  const Unit unit = units_[id];
  loads_.release(id);
  free_units_.push_back(id);
  for (const Transfer& t : transfers_of(unit)) t.route->carried += t.bytes.value();
  Started& started = started_[unit.started];
  if (--started.under_way > 0) return;
  free_started_.push_back(unit.started);
  handler_->on_flow(started.token);
}

std::span<const SimGridClock::Transfer> SimGridClock::transfers_of(const Unit& unit) {
  const std::span<const Transfer> all = unit.stage->transfers;
  return unit.transfer == kAll ? all : all.subspan(static_cast<std::size_t>(unit.transfer), 1);
}

SimGridClock::UnitId SimGridClock::add_unit(std::size_t started, const Stage& stage, int transfer, double start) {
  if (free_units_.empty()) {
    free_units_.push_back(static_cast<UnitId>(units_.size()));
    units_.emplace_back();
  }
  const UnitId id = free_units_.back();
  free_units_.pop_back();
  units_[id] = {started, &stage, stage.transfers.size() == 1 ? 0 : transfer, start, start + stage.seconds, 0};
  ++started_[started].under_way;
  return id;
}

/// The transfers of a whole stage, booked one by one in place of it.
std::vector<SimGridClock::UnitId> SimGridClock::split(UnitId id) {
  const Unit whole = units_[id];
  loads_.release(id);
  free_units_.push_back(id);
  --started_[whole.started].under_way;
  std::vector<UnitId> parts;
  for (std::size_t i = 0; i < whole.stage->transfers.size(); ++i) {
    const Transfer& t = whole.stage->transfers[i];
    parts.push_back(add_unit(whole.started, *whole.stage, static_cast<int>(i), whole.start));
    if (solved_ == Solved::contended) loads_.book(parts.back(), t.route->folded, t.rate);
  }
  return parts;
}

void SimGridClock::admit_waiting() {
  for (const std::size_t index : waiting_)
    for (const Stage& stage : bundles_[started_[index].bundle].stages) {
      const UnitId id = add_unit(index, stage, kAll, now_);
      if (solved_ == Solved::contended) loads_.book(id, stage.asks);
      newcomers_.push_back(id);
    }
  waiting_.clear();
  if (solved_ == Solved::contended) make_room();
  for (const UnitId id : newcomers_) {
    if (solved_ == Solved::contended && !loads_.overloaded(id))
      run_free(id);
    else if (units_[id].transfer != kAll)
      settle(id);
    else
      for (const UnitId part : split(id)) settle(part);
  }
  newcomers_.clear();
}

// Takes free transfers off the links that newcomers overload: to their end if they are there, else to SimGrid.
void SimGridClock::make_room() {
  for (const UnitId id : loads_.squeezed())
    if (units_[id].end - now_ <= kTimePrecision) loads_.release(id);
  for (const UnitId id : loads_.squeezed()) {
    events_.cancel(units_[id].event);
    if (units_[id].transfer != kAll) {
      loads_.set_solved(id);
      settle(id);
    } else {
      for (const UnitId part : split(id)) settle(part);
    }
  }
  loads_.forget_overloads();
}

/// One transfer that is booked, not free: on as before where nothing is in its way, else to SimGrid with what it has
/// left.
void SimGridClock::settle(UnitId id) {
  if (solved_ == Solved::contended && !loads_.overloaded(id)) return run_free(id);
  const Unit& unit = units_[id];
  const Transfer& t = transfers_of(unit).front();
  for_solver_.push_back({id, t.bytes - t.rate * Seconds{now_ - unit.start}});
}

void SimGridClock::run_free(UnitId id) {
  Unit& unit = units_[id];
  loads_.set_free(id);
  unit.event = events_.push({unit.end, started_[unit.started].sequence, id, true});
}

void SimGridClock::hand_over() {
  for (const Handover& h : for_solver_) {
    const Transfer& t = transfers_of(units_[h.unit]).front();
    facade_.start_flow(t.route->folded, h.left, t.cap, h.unit);
    ++solving_;
    ++solver_flows_;
  }
  for_solver_.clear();
}

}  // namespace rehearse::sim
