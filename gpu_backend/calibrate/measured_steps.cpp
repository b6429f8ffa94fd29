#include "gpu_backend/calibrate/measured_steps.hpp"

#include <algorithm>
#include <cmath>

namespace rehearse {

namespace {

/// Every rank's numbers, one after the other, on all ranks.
std::vector<double> gathered(Transport& transport, const std::vector<double>& mine,
                             const std::vector<std::size_t>& sizes) {
  std::size_t begin = 0, total = 0;
  for (std::size_t r = 0; r < sizes.size(); ++r) {
    if (static_cast<int>(r) == transport.rank()) begin = total;
    total += sizes[r];
  }
  std::vector<double> all(total, 0.0);
  std::copy(mine.begin(), mine.end(), all.begin() + static_cast<std::ptrdiff_t>(begin));
  if (transport.ranks() > 1) transport.sum(all);
  return all;
}

std::size_t nearest_to(const std::vector<double>& seconds, double median) {
  const auto nearer = [&](double a, double b) { return std::abs(a - median) < std::abs(b - median); };
  return static_cast<std::size_t>(std::min_element(seconds.begin(), seconds.end(), nearer) - seconds.begin());
}

bool communicates(const Instruction& in) {
  return std::holds_alternative<CollectiveTask>(in.task->kind) || std::holds_alternative<P2pTask>(in.task->kind);
}

}  // namespace

MeasuredSteps measure_steps(const Program& program, ComputeDevice& device, Transport& transport, const DataSource& data,
                            const StepCounts& counts, const std::function<void(int)>& on_step) {
  MeasuredSteps out;
  const int warm_up = counts.warm_up, steps = counts.steps;
  Executor executor(program, device, transport, data, {.replay = counts.replay, .fuse = false});
  out.not_replayed_because = executor.not_replayed_because();
  std::vector<double> mine;
  // Where measuring tasks takes time of its own, steps are timed without it and taken apart after.
  const int apart = device.queues() ? steps : 0;
  for (int i = 0; i < warm_up + steps + apart; ++i) {
    executor.drain();
    if (i == warm_up + steps) device.measure(true);
    std::vector<double> together{0};
    if (transport.ranks() > 1) transport.sum(together);
    const double zero = device.now();
    (void)executor.step(i >= warm_up + steps);
    const double seconds = device.now() - zero;
    executor.drain();
    if (on_step) on_step(i);
    if (i >= warm_up && i < warm_up + steps) out.seconds.push_back(seconds);
    if (i < warm_up + apart) continue;
    for (const Interval& when : executor.intervals()) mine.insert(mine.end(), {when.begin - zero, when.end - zero});
  }
  device.measure(false);
  std::vector<std::size_t> sizes;
  for (int r = 0; r < transport.ranks(); ++r)
    sizes.push_back(2 * RankPlan(program, r).step().size() * static_cast<std::size_t>(steps));
  const std::vector<double> all = gathered(transport, mine, sizes);
  if (transport.rank() != 0) return {};
  std::size_t at = 0;
  for (const std::size_t size : sizes) {
    RankSteps& rank = out.ranks.emplace_back();
    rank.steps.resize(static_cast<std::size_t>(steps));
    for (auto& step : rank.steps)
      for (std::size_t i = 0; i < size / 2 / static_cast<std::size_t>(steps); ++i, at += 2)
        step.push_back({all[at], all[at + 1]});
  }
  std::vector<double> with_warm_up = out.seconds;
  with_warm_up.insert(with_warm_up.begin(), 0.0);  // summarise() leaves the first out.
  out.times = summarise(std::move(with_warm_up));
  out.median_step = nearest_to(out.seconds, out.times.median);
  return out;
}

StepShares shares_of(const RankPlan& plan, const std::vector<Interval>& step, double seconds) {
  StepShares out;
  std::vector<Interval> busy, moving;
  for (std::size_t i = 0; i < step.size(); ++i) {
    if (computes(plan.step()[i])) busy.push_back(step[i]), out.compute += step[i].end - step[i].begin;
    if (communicates(plan.step()[i])) moving.push_back(step[i]);
  }
  const auto earlier = [](const Interval& a, const Interval& b) { return a.begin < b.begin; };
  std::sort(busy.begin(), busy.end(), earlier);
  busy.push_back({seconds, seconds});
  double free_from = 0;
  for (const Interval& next : busy) {
    const bool waits = std::any_of(moving.begin(), moving.end(),
                                   [&](const Interval& m) { return m.begin < next.begin && m.end > free_from; });
    if (waits && next.begin > free_from) out.exposed += next.begin - free_from;
    free_from = std::max(free_from, next.end);
  }
  out.rest = seconds - out.compute - out.exposed;
  return out;
}

}  // namespace rehearse
