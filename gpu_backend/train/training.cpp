#include "gpu_backend/train/training.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/index.hpp"
#include "gpu_backend/execute/spans.hpp"

namespace rehearse {

namespace {

/// Spans of all ranks, whose clocks are set to zero together; on rank 0.
std::vector<Span> gather_spans(const Program& program, Transport& transport, const std::vector<Interval>& mine,
                               double zero) {
  std::vector<std::unique_ptr<RankPlan>> plans;
  std::size_t total = 0, begin = 0;
  for (int r = 0; r < transport.ranks(); ++r) {
    plans.push_back(std::make_unique<RankPlan>(program, r));
    if (r == transport.rank()) begin = total;
    total += 2 * plans.back()->step().size();
  }
  std::vector<double> all(total, 0.0);
  for (std::size_t i = 0; i < mine.size(); ++i) {
    all[begin + 2 * i] = mine[i].begin - zero;
    all[begin + 2 * i + 1] = mine[i].end - zero;
  }
  if (transport.ranks() > 1) transport.sum(all);
  std::vector<Span> out;
  if (transport.rank() != 0) return out;
  std::size_t at = 0;
  for (const auto& plan : plans)
    for (const Instruction& in : plan->step()) {
      out.push_back(span_of(*plan, in, {all[at], all[at + 1]}));
      at += 2;
    }
  return out;
}

double at_share(const std::vector<double>& sorted, double share) {
  return nth(sorted, std::lround(share * static_cast<double>(sorted.size() - 1)));
}

}  // namespace

StepTimes summarise(std::vector<double> seconds) {
  if (seconds.size() > 1) seconds.erase(seconds.begin());
  if (seconds.empty()) return {};
  std::sort(seconds.begin(), seconds.end());
  return {at_share(seconds, 0.5), at_share(seconds, 0.05), at_share(seconds, 0.95),
          static_cast<std::int64_t>(seconds.size())};
}

TrainingSummary train(const Program& program, ComputeDevice& device, Transport& transport, const DataSource& data,
                      const TrainingRun& run) {
  TrainingSummary out;
  Executor executor(program, device, transport, data, {.replay = run.replay});
  out.not_replayed_because = executor.not_replayed_because();
  const Checkpoints checkpoints(run.checkpoints, program, device.numerics());
  if (run.resume) {
    out.resumed = checkpoints.load(checkpoints.newest_to_resume(), executor, device, transport);
    if (run.on_resume) run.on_resume(out.resumed);
  }
  if (!run.init.empty()) {
    GivenWeights weights(run.init, program, run.weight_names);
    weights.load(executor, device);
    out.init_names = weights.scheme();
    if (run.on_init) run.on_init(weights);
  }
  std::vector<double> seconds;
  double zero = 0;
  while (executor.next_step() < run.steps) {
    const bool last = executor.next_step() + 1 == run.steps;
    if (last && run.trace) {
      executor.drain();
      device.measure(true);
      std::vector<double> together{0};
      transport.sum(together);
      zero = device.now();
    }
    out.last = executor.step(last && run.trace);
    if (out.last.replayed) ++out.replayed;
    seconds.push_back(out.last.seconds);
    out.losses.push_back(out.last.loss);
    if (run.on_step) run.on_step(out.last);
    const bool due = run.save_every > 0 && executor.next_step() % run.save_every == 0;
    if (!run.checkpoints.empty() && (due || last)) checkpoints.save(executor, device, transport);
  }
  executor.drain();
  if (!run.save_weights.empty())
    out.saved_names =
        save_weights(run.save_weights, out.init_names, run.weight_names, program, executor, device, transport);
  if (run.trace && !seconds.empty()) out.spans = gather_spans(program, transport, executor.intervals(), zero);
  out.times = summarise(std::move(seconds));
  return out;
}

}  // namespace rehearse
