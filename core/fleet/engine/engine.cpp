#include "core/fleet/engine/engine.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/base/error.hpp"

namespace rehearse::fleet {

namespace {

/// How often nodes that fail may stop one job before it is said that it never ends.
constexpr int kMostFailures = 10'000;

}  // namespace

Engine::Engine(const Fleet& fleet, const RunOptions& options)
    : fleet_(fleet),
      options_(options),
      machines_(fleet.nodes),
      order_(orders().at(fleet.policy.order).value(Parameters(fleet.policy.parameters))),
      rule_(rules().at(fleet.policy.rule).value(Parameters(fleet.policy.parameters))),
      placer_(machines_, fleet.jobs, placements().at(fleet.policy.placement).value(), fleet.seed),
      planes_(fleet, machines_.pools()),
      waiting_(planes_.separates() || planes_.by_pool()) {
  outages_open_.assign(fleet.nodes.size(), 0);
  set_up_jobs();
  set_up_failures();
}

void Engine::set_up_jobs() {
  std::map<std::string, int> queues;
  for (std::size_t q = 0; q < fleet_.queues.size(); ++q) queues[fleet_.queues[q].name] = static_cast<int>(q) + 1;
  result_.queues.resize(fleet_.queues.size());
  result_.jobs.resize(fleet_.jobs.size());
  states_.resize(fleet_.jobs.size());
  pools_.resize(fleet_.jobs.size());
  slot_.assign(fleet_.jobs.size(), -1);
  std::vector<int> by_arrival(fleet_.jobs.size());
  for (std::size_t i = 0; i < by_arrival.size(); ++i) by_arrival[i] = static_cast<int>(i);
  std::stable_sort(by_arrival.begin(), by_arrival.end(),
                   [this](int a, int b) { return nth(fleet_.jobs, a).arrival < nth(fleet_.jobs, b).arrival; });
  for (std::size_t n = 0; n < by_arrival.size(); ++n) {
    const int i = by_arrival[n];
    const Job& job = nth(fleet_.jobs, i);
    JobState& s = nth(states_, i);
    s.job = &job;
    s.id = i;
    s.queue = job.queue.empty() ? 0 : queues[job.queue];
    s.shape = placer_.shape_of(at(i));
    nth(pools_, i) = planes_.usable(s.queue, shape(s).pools);
    s.number = static_cast<int>(n);
    s.arrival = job.arrival.value();
    s.left = s.saved = job.duration.value();
    s.every = fleet_.interruption.checkpoint.value();
    s.write = fleet_.interruption.write.value();
    push(s.arrival, Kind::arrival, i);
    ++coming_;
  }
  if (!by_arrival.empty()) now_ = nth(states_, by_arrival.front()).arrival;
  result_.begin = Seconds{now_};
}

void Engine::set_up_failures() {
  std::map<std::string, int> nodes;
  for (std::size_t n = 0; n < fleet_.nodes.size(); ++n) nodes[fleet_.nodes[n].name] = static_cast<int>(n);
  for (const Outage& o : fleet_.outages) {
    push(std::max(o.down.value(), now_), Kind::down, nodes.at(o.node));
    ++coming_;
    if (!std::isfinite(o.up.value())) continue;
    push(std::max(o.up.value(), now_), Kind::up, nodes.at(o.node));
    ++coming_;
  }
  for (std::size_t n = 0; n < fleet_.nodes.size(); ++n) {
    failure_draws_.emplace_back(fleet_.failures.seed * 1'000'003 + n);
    push_failure(static_cast<int>(n));
  }
}

/// The node's next one, if it ever breaks.
void Engine::push_failure(int node) {
  const Seconds own = nth(fleet_.nodes, node).mtbf, mean = std::isfinite(own.value()) ? own : fleet_.failures.mtbf;
  if (!std::isfinite(mean.value())) return;
  nodes_break_ = true;
  std::exponential_distribution<double> wait(1 / mean.value());
  push(now_ + wait(nth(failure_draws_, node)), Kind::down, node, 1);
}

std::vector<int> Engine::open_pools(const JobState& j, std::int64_t milli) const {
  std::vector<int> out;
  for (const int pool : pools_of(j))
    if (planes_.admits(j.queue, milli, pool)) out.push_back(pool);
  return out;
}

bool Engine::admits(const JobState& j, std::int64_t milli) const {
  if (!planes_.by_pool()) return planes_.admits(j.queue, milli, pools_of(j).front());
  return !open_pools(j, milli).empty();
}

double Engine::expected_end(const JobState& j) const {
  const double told = j.job->estimate.value() > 0 ? j.job->estimate.value() : j.job->duration.value();
  const double over = j.job->duration.value() - told;  // Below 0 where more time was asked for than it takes.
  return std::max(now_, j.end_of(j.left - over));
}

bool Engine::ends_before(const JobState& a, const JobState& b) const {
  const double x = expected_end(a), y = expected_end(b);
  return x != y ? x < y : a.number < b.number;
}

double Engine::expected_time(const JobState& j) const {
  const double told = j.job->estimate.value() > 0 ? j.job->estimate.value() : j.job->duration.value();
  const double restart = (j.interrupted ? fleet_.interruption.restart : fleet_.interruption.start).value();
  return restart + j.with_writes(std::max(0.0, j.left - (j.job->duration.value() - told)));
}

bool Engine::stoppable(const JobState& j) const { return j.job->preemptible && j.began < now_ && now_ >= safe_from(j); }

double Engine::safe_from(const JobState& j) const { return j.ready + std::max(j.every + j.write, j.ready - j.began); }

double Engine::speed_of(const JobState& j, int gpus, const Holding& held) const {
  const Request& r = j.job->request;
  if (j.job->speeds.empty()) return r.gpus > 0 ? static_cast<double>(gpus) / r.gpus : 1;
  const std::string& model = nth(machines_.models(), machines_[held.hosts.front().node].model);
  for (const Speed& s : j.job->speeds)
    if (s.gpus == gpus && (s.model.empty() || s.model == model)) return j.job->duration / s.duration;
  return static_cast<double>(gpus) / r.gpus;
}

void Engine::bring_up_to_date(JobState& j) {
  JobResult& r = nth(result_.jobs, j.id);
  const double passed = now_ - j.since, gpus = static_cast<double>(j.milli) / kWholeGpu;
  const double works = j.worked_until(now_), idle = passed - works;
  j.left = std::max(0.0, j.left - works * j.speed);
  j.attained += passed;
  j.attained_gpu += passed * gpus;
  r.running += Seconds{passed};
  r.gpu_seconds += passed * gpus;
  r.idle_gpu_seconds += idle * gpus;
  j.since = now_;
}

void Engine::schedule_end(JobState& j) {
  ++j.epoch;
  push(j.end(), Kind::finish, j.id, j.epoch);
  ++coming_;
  if (const double change = order_->next_change(j, now_); change < j.end()) {
    push(std::max(change, now_), Kind::change, j.id, j.epoch);
    ++coming_;
  }
  const double safe = safe_from(j);
  if (safe > now_ && safe < j.end()) push(safe, Kind::look);
}

void Engine::end_stay(JobState& j) {
  if (!options_.record || now_ <= j.began) return;
  Stay stay{j.id, Seconds{j.began}, Seconds{now_}, {}};
  for (const Holding::Host& h : j.held.hosts) {
    if (!stay.held.empty() && stay.held.back().node == h.node)
      stay.held.back().gpus += h.slices;
    else
      stay.held.push_back({h.node, h.slices});
  }
  result_.stays.push_back(std::move(stay));
}

void Engine::start(JobState& j, Holding held, int gpus) {
  const OrderKey k = key(j);
  const std::array<double, kWhys> waited = waiting_.remove(j, k, shape(j).least_milli, now_);
  JobResult& r = nth(result_.jobs, j.id);
  for (std::size_t w = 0; w < waited.size(); ++w) {
    r.waited[w] += Seconds{waited[w]};
    r.waiting += Seconds{waited[w]};
  }
  started_.emplace_back(k, &j);
  if (r.started.value() < 0) {
    r.started = Seconds{now_};
    if (now_ > j.arrival) r.after = released_;
  }
  j.phase = Phase::running;
  j.gpus = gpus;
  j.milli = static_cast<std::int64_t>(gpus) * j.job->request.milli;
  j.held = std::move(held);
  j.speed = speed_of(j, gpus, j.held);
  j.began = j.since = now_;
  j.ready = now_ + (j.interrupted ? fleet_.interruption.restart : fleet_.interruption.start).value();
  j.interrupted = false;
  j.saved = j.left;
  planes_.ask(j.queue, -shape(j).least_milli, pools_of(j).front());
  count_in(j.queue, j.held);
  nth(slot_, j.id) = static_cast<int>(running_.size());
  running_.push_back(j.id);
  if (j.job->request.elastic()) ++elastic_running_;
  schedule_end(j);
}

void Engine::lift(JobState& j) {
  machines_.give(j.held);
  count_out(j.queue, j.held);
}
void Engine::put_back(JobState& j) {
  machines_.take_again(j.held);
  count_in(j.queue, j.held);
}

void Engine::stop(JobState& j, Stop why, bool given) {
  bring_up_to_date(j);
  end_stay(j);
  JobResult& r = nth(result_.jobs, j.id);
  const double done = j.saved - j.left;
  double kept = done;
  if (j.every > 0)
    kept = std::min(done, j.written(now_) * j.every * j.speed);
  else if (why == Stop::failed)
    kept = 0;
  if (why != Stop::finished) {
    r.lost_gpu_seconds += (done - kept) / j.speed * static_cast<double>(j.milli) / kWholeGpu;
    j.left = j.saved - kept;
    j.interrupted = true;
    (why == Stop::failed ? r.failures : r.preemptions)++;
    if (r.failures > kMostFailures)
      throw Error(ErrorKind::usage,
                  fmt::format("job '{}' was stopped {} times by nodes that failed, and has not ended", j.job->name,
                              kMostFailures),
                  j.job->where, "write checkpoints more often than nodes fail: interruption.checkpoint");
    if (why == Stop::preempted) stopped_.emplace_back(key(j), &j);
  }
  if (!given) lift(j);
  ++releases_;
  released_ = j.id;
  ++j.epoch;
  j.held = {};
  j.phase = why == Stop::finished ? Phase::gone : Phase::waiting;
  j.gpus = 0;
  const int slot = nth(slot_, j.id);
  nth(running_, slot) = running_.back();
  nth(slot_, running_.back()) = slot;
  running_.pop_back();
  if (j.job->request.elastic()) --elastic_running_;
  nth(slot_, j.id) = -1;
  if (why == Stop::finished) {
    r.end = JobEnd::done;
    r.finished = Seconds{now_};
    ++ended_;
  }
}

void Engine::resize(JobState& j, Holding held, int gpus) {
  bring_up_to_date(j);
  end_stay(j);
  ++nth(result_.jobs, j.id).resizes;
  ++releases_;
  released_ = j.id;
  j.held = std::move(held);
  j.gpus = gpus;
  j.milli = static_cast<std::int64_t>(gpus) * j.job->request.milli;
  j.speed = speed_of(j, gpus, j.held);
  j.began = now_;
  j.saved = j.left;
  j.ready = std::max(j.ready, now_) + fleet_.interruption.resize.value();
  schedule_end(j);
}

}  // namespace rehearse::fleet
