// Events in order of time, what they change, and the sums that are kept between them.

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/fleet/engine/engine.hpp"
#include "core/fleet/engine/grow.hpp"
#include "core/fleet/engine/pass.hpp"

namespace rehearse::fleet {

namespace {

constexpr int kEventsBetweenWords = 4096;
constexpr double kRoundSlack = 1e-9;  ///< Of a round.

}  // namespace

void Engine::advance(double to) {
  const double passed = to - now_;
  if (passed <= 0) return;
  const double whole = kWholeGpu;
  Account& a = result_.account;
  a.capacity += passed * static_cast<double>(machines_.capacity_milli()) / whole;
  a.down += passed * static_cast<double>(machines_.down_milli()) / whole;
  double free = 0;
  for (std::size_t p = 0; p < machines_.pools().size(); ++p)
    free += static_cast<double>(machines_.free_milli(static_cast<int>(p)));
  for (std::size_t w = 0; w < wanted_.size(); ++w) {
    const double part = std::min(free, wanted_[w]);
    a.waited_for[w] += passed * part / whole;
    free -= part;
  }
  a.unwanted += passed * free / whole;
  for (std::size_t q = 0; q < result_.queues.size(); ++q) {
    const int n = static_cast<int>(q) + 1;
    const auto used = static_cast<double>(planes_.used(n)), asked = static_cast<double>(planes_.asked(n));
    result_.queues[q].gpu_seconds += passed * used / whole;
    result_.queues[q].asked_gpu_seconds += passed * (used + asked) / whole;
  }
  planes_.remember(passed);
  now_ = to;
}

void Engine::sample() {
  if (!options_.record) return;
  for (std::size_t q = 0; q < result_.queues.size(); ++q) {
    const int n = static_cast<int>(q) + 1;
    const double held = static_cast<double>(planes_.used(n)) / kWholeGpu;
    const double asked = static_cast<double>(planes_.asked(n)) / kWholeGpu;
    std::vector<QueueSample>& s = result_.queues[q].samples;
    if (s.empty() || s.back().held != held || s.back().asked != asked) s.push_back({Seconds{now_}, held, asked});
  }
}

void Engine::wait(JobState& j) {
  j.phase = Phase::waiting;
  planes_.ask(j.queue, shape(j).least_milli, pools_of(j).front());
  waiting_.add(j, key(j), shape(j).least_milli, now_);
}

void Engine::node_down(int node) {
  if (nth(outages_open_, node)++ > 0) return;
  std::vector<JobId> there;
  for (const JobId id : running_)
    if (std::any_of(job(id).held.hosts.begin(), job(id).held.hosts.end(),
                    [node](const Holding::Host& h) { return h.node == node; }))
      there.push_back(id);
  std::sort(there.begin(), there.end());
  for (const JobId id : there) {
    stop(job(id), Stop::failed);
    order_->failed(job(id));
    wait(job(id));
  }
  machines_.set_up(node, false);
}

void Engine::handle(const Event& e) {
  ++result_.events;
  if (e.kind == Kind::look) {
    if (e.id == 1) next_look_ = kNever;
    if (e.id == 2) next_round_ = kNever;
    return;
  }
  if (e.kind == Kind::down || e.kind == Kind::up) {
    const bool drawn = e.epoch == 1;
    if (!drawn) --coming_;
    if (e.kind == Kind::down) {
      node_down(e.id);
      if (drawn) push(now_ + fleet_.failures.repair.value(), Kind::up, e.id, 1);
    } else {
      if (--nth(outages_open_, e.id) == 0) machines_.set_up(e.id, true), ++releases_;
      if (drawn) push_failure(e.id);
    }
    return;
  }
  --coming_;
  JobState& j = job(e.id);
  if (e.kind == Kind::arrival) {
    order_->arrived(j);
    wait(j);
    return;
  }
  if (e.epoch != j.epoch || j.phase != Phase::running) return;
  if (e.kind == Kind::finish) {
    stop(j, Stop::finished);
    order_->ended(j);
    return;
  }
  bring_up_to_date(j);
  order_->changed(j, now_);
  if (const double change = order_->next_change(j, now_); change < j.end()) {
    push(std::max(change, now_), Kind::change, j.id, j.epoch);
    ++coming_;
  }
}

/// Jobs that the look stopped begin to wait; the order is told.
void Engine::settle() {
  const auto by_key = [](std::vector<std::pair<OrderKey, JobState*>>& jobs) {
    std::sort(jobs.begin(), jobs.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<JobState*> out;
    for (const auto& [k, j] : jobs) out.push_back(j);
    jobs.clear();
    return out;
  };
  const std::vector<JobState*> started = by_key(started_), stopped = by_key(stopped_);
  order_->settled(started, stopped);
  for (JobState* j : stopped) wait(*j);
}

/// Whether the scheduler looks at the jobs now: at each event, or at multiples of an interval.
bool Engine::round_begins() const {
  const double interval = fleet_.policy.interval.value(), rounds = now_ / interval;
  return interval <= 0 || std::abs(rounds - std::round(rounds)) <= kRoundSlack * std::max(1.0, rounds);
}

/// Sees to it that the next round, or look that the order wants, is among the events while jobs wait.
void Engine::expect_round() {
  const double interval = fleet_.policy.interval.value();
  if (next_round_ != kNever || waiting_.count() == 0) return;
  if (interval <= 0) {
    if (const double again = order_->again(); std::isfinite(again)) push(next_round_ = again, Kind::look, 2);
    return;
  }
  if (round_begins() && coming_ == 0 && running_.empty() && !nodes_break_) return;
  const double rounds = now_ / interval;
  next_round_ = (std::floor(rounds + kRoundSlack * std::max(1.0, rounds)) + 1) * interval;
  push(next_round_, Kind::look, 2);
}

void Engine::weigh() {
  if (!order_->weighs(now_)) return;
  std::vector<JobState*> jobs;
  for (const JobId id : running_) jobs.push_back(&job(id));
  for (const WaitingGroup& g : waiting_.groups())
    for (const auto& [key, id] : g.jobs) jobs.push_back(&job(id));
  std::sort(jobs.begin(), jobs.end(), [](const JobState* a, const JobState* b) { return a->number < b->number; });
  order_->weigh(jobs, now_, machines_.capacity_milli() - machines_.down_milli());
  waiting_.sort_anew([this](JobId id) { return key(job(id)); });
}

void Engine::look() {
  ++result_.passes;
  weigh();
  if (waiting_.count() > 0) {
    planes_.look(now_);
    Pass pass(*this);
    rule_->look(pass);
  }
  grow_elastic(*this);
  settle();
  classify();
  sample();
  if (waiting_.count() > 0 && next_look_ == kNever && std::isfinite(planes_.again_after()) &&
      (coming_ > 0 || !running_.empty())) {
    next_look_ = now_ + planes_.again_after();
    push(next_look_, Kind::look, 1);
  }
}

std::int64_t Engine::most_free(const JobState& j) const {
  std::int64_t most = 0;
  for (const int pool : pools_of(j)) most = std::max(most, machines_.free_milli(pool));
  return most;
}

/// Says why each group waits where the look did not come to it, and sums what waiting jobs ask for.
void Engine::classify() {
  wanted_.fill(0);
  for (WaitingGroup& g : waiting_.groups()) {
    if (g.jobs.empty()) continue;
    if (!g.looked) {
      const JobState& first = job(g.jobs.begin()->second);
      const Shape& s = shape(first);
      g.until(now_);
      g.why = most_free(first) < s.least_milli || s.milli == 0 ? Why::busy
              : !admits(first, s.least_milli)                  ? Why::quota
              : g.no_room_at == releases_                      ? Why::fragments
                                                               : Why::order;
    }
    nth(wanted_, g.why) += static_cast<double>(g.milli);
  }
}

bool Engine::told_to_stop() {
  if (result_.events % kEventsBetweenWords != 0) return false;
  if (options_.progress)
    options_.progress(states_.empty() ? 1 : static_cast<double>(ended_) / static_cast<double>(states_.size()));
  return options_.stop && options_.stop();
}

FleetResult Engine::run() {
  const double until = fleet_.until.value();
  while (!events_.empty()) {
    const double time = events_.top().time;
    if (time > until) {
      advance(std::max(now_, until));
      break;
    }
    if (coming_ == 0 && running_.empty() && waiting_.count() == 0 && stopped_.empty()) break;
    advance(time);
    bool stopped = false;
    while (!events_.empty() && events_.top().time == time) {
      const Event e = events_.top();
      events_.pop();
      handle(e);
      stopped = stopped || told_to_stop();
    }
    if (round_begins()) {
      look();
    } else {
      classify();
      sample();
    }
    expect_round();
    if (stopped) break;
    // Only looks are left, and nothing runs: what still waits will wait for ever.
    if (coming_ == 0 && running_.empty() && !nodes_break_ && next_round_ == kNever) break;
  }
  return finish();
}

FleetResult Engine::finish() {
  result_.end = Seconds{now_};
  Account& a = result_.account;
  for (JobState& j : states_) {
    JobResult& r = nth(result_.jobs, j.id);
    if (j.phase == Phase::running) {
      bring_up_to_date(j);
      end_stay(j);
      r.end = JobEnd::running;
    } else if (j.phase == Phase::waiting) {
      const std::array<double, kWhys> waited = waiting_.remove(j, key(j), shape(j).least_milli, now_);
      for (std::size_t w = 0; w < waited.size(); ++w) {
        r.waited[w] += Seconds{waited[w]};
        r.waiting += Seconds{waited[w]};
      }
      r.end = JobEnd::waiting;
    }
    a.restarts += r.idle_gpu_seconds;
    a.lost += r.lost_gpu_seconds;
    a.useful += r.gpu_seconds - r.idle_gpu_seconds - r.lost_gpu_seconds;
  }
  if (std::abs(a.total() - a.capacity) > 1e-6 * std::max(a.capacity, 1.0))
    throw Error(ErrorKind::check_failed,
                fmt::format("GPU-seconds add up to {:.9g}, and there were {:.9g}", a.total(), a.capacity), fleet_.name,
                "this is a defect of the program: please report it with the file");
  return std::move(result_);
}

double Account::total() const {
  double out = useful + lost + restarts + down + unwanted;
  for (const double w : waited_for) out += w;
  return out;
}

const std::array<std::string, kWhys>& why_names() {
  static const std::array<std::string, kWhys> names{"order", "quota", "fragments", "busy"};
  return names;
}

FleetResult run_fleet(const Fleet& fleet, const RunOptions& options) {
  check_fleet(fleet);
  return Engine(fleet, options).run();
}

}  // namespace rehearse::fleet
