#include "core/estimate/estimate.hpp"

#include <algorithm>
#include <map>

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/estimate/estimate_tail.hpp"
#include "core/play/clocks/analytic_clock.hpp"
#include "core/play/player/player.hpp"
#include "core/program/body.hpp"
#include "core/strategy/roles/roles.hpp"
#include "core/strategy/roles/update_in_backward.hpp"

namespace rehearse {

namespace {

/// Kernels of all passes of a step.
Breakdown kernels_of(const Stage& stage, int microbatches) {
  Breakdown out;
  for (const auto& [chunk, passes] : stage.chunks)
    for (const StagePass& pass : passes) {
      out += pass.work.breakdown;
      out += pass.prepare.breakdown;
    }
  out *= microbatches;
  // The last microbatch's backward stands for all: its weight gradients are in it unless it leaves them too.
  if (stage.deferred.microbatches == microbatches) {
    Breakdown late = stage.deferred.each.breakdown;
    late *= microbatches;
    out += late;
  }
  return out;
}

/// Everything adds up to `period`: what is missing is bubble.
Breakdown balanced(Breakdown b, Seconds period) {
  Seconds missing = period - b.total();
  if (max(missing, -missing) < period * 1e-12) missing = Seconds{0};  // The dust of sums.
  Seconds& bubble = b[TimeCategory::bubble];
  if (bubble + missing >= Seconds{0}) {
    bubble += missing;
  } else {
    bubble = Seconds{0};
    b *= period / b.total();
  }
  return b;
}

struct Step {
  PipelineState state;
  std::vector<TailResult> tails;
  double end = 0;
};

Step play_step(const Program& program, const std::vector<Stage>& stages, const PipelineRecurrence& pipeline,
               EstimatePrices& prices, PipelineState start) {
  for (StageLane& lane : start.lanes) lane.waits = {};
  Step out{pipeline.run(start), {}, 0};
  out.tails = walk_tails(program, stages, prices, out.state);
  for (const TailResult& t : out.tails) out.end = std::max(out.end, t.end);
  return out;
}

/// Whether every microbatch's forward calls as many bodies: none does anything once a step (casts of weights to fp8).
bool passes_alike(const Program& program, const Role& role) {
  std::vector<int> calls(static_cast<std::size_t>(program.microbatches), 0);
  for (const Entry& e : role.step)
    if (nth(program.bodies, e.body).phase == Phase::forward) ++nth(calls, e.microbatch);
  return std::all_of(calls.begin(), calls.end(), [&](int n) { return n == calls.front(); });
}

/// The recurrence knows whole passes that set off reductions in the last microbatch only, on stages of one role each.
bool recurrence_holds(const Program& program, const CostModel& cost, const StrategySettings& s) {
  if (s.zero_stage >= 2 || s.fsdp.enabled || s.offload != Offload::none || updates_in_backward(s) ||
      s.data_parallel != DataParallelism::replicas || static_cast<int>(program.roles.size()) != s.pp)
    return false;
  if (program.microbatches > 1 && syncs_every_microbatch(s, false)) return false;
  // Two networks, each with its passes.
  if (program.chunks.size() != static_cast<std::size_t>(s.pp) * static_cast<std::size_t>(s.virtual_stages))
    return false;
  std::map<int, std::string> gpu;  // By role: ranks of one role take as long as one another.
  for (std::size_t r = 0; r < program.role_of_rank.size() && cost.cluster().parts().size() > 1; ++r) {
    const std::string& mine = cost.cluster().gpu(program.device_of_rank[r]).id;
    if (gpu.try_emplace(program.role_of_rank[r], mine).first->second != mine) return false;
  }
  for (const Role& role : program.roles)
    if (!passes_alike(program, role)) return false;
  const Schedule& schedule = *schedules().at(s.schedule).value;
  for (int stage = 0; stage < s.pp; ++stage)
    for (const Slot& slot : schedule.order(stage, {s.pp, s.virtual_stages, program.microbatches}))
      if ((slot.pass != Pass::forward && slot.pass != Pass::backward) || slot.copy != 0 || slot.paired) return false;
  return true;
}

/// Plays one rank of each kind; replicas that lie alike take as long as one another.
Estimate played(const Program& program, const CostModel& cost, int steps) {
  RunOptions options;
  options.steps = steps;
  options.fold_replicas = true;
  AnalyticClock clock(cost.cluster());
  Trace nothing({});
  const RunResult run = play(program, cost.cluster(), cost, options, nothing, clock, "estimate");
  const RankMetrics& slowest = run.ranks.at(static_cast<std::size_t>(run.slowest));
  return {run.step_time, slowest.breakdown, slowest.role};
}

}  // namespace

Estimate estimate(const Program& program, const CostModel& cost, const StrategySettings& settings, int steps) {
  if (cost.options().input.sample > Bytes{0} || !recurrence_holds(program, cost, settings))
    return played(program, cost, steps);
  EstimatePrices prices(program, cost);
  const std::vector<Stage> stages = price_stages(program, settings, prices);
  const PipelineRecurrence pipeline(stages, *schedules().at(settings.schedule).value,
                                    {settings.pp, settings.virtual_stages, program.microbatches}, !settings.overlap.pp);
  PipelineState start{std::vector<StageLane>(stages.size()), std::vector<EventTimes>(stages.size())};
  Step step = play_step(program, stages, pipeline, prices, start);
  double before = 0;
  if (steps > 1) {
    before = step.end;
    step = play_step(program, stages, pipeline, prices, std::move(step.state));
  }
  // Groups that wait for one another in turn, now for the one with the slow links and now for the other, add up to more
  // than the slowest does alone.
  if (settings.cp > 1 && prices.unlike()) return played(program, cost, steps);
  Estimate out;
  out.step_time = Seconds{step.end - before};
  double latest = -1;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    StageLane& lane = step.state.lanes[s];
    lane.wait_beside(step.tails[s].end, TimeCategory::exposed_tp, TimeCategory::exposed_dp);
    Breakdown b = kernels_of(stages[s], program.microbatches);
    b += step.tails[s].kernels;
    b += lane.waits;
    b = balanced(b, out.step_time);
    const double end = step.tails[s].end;
    const bool busier = end >= latest * (1 - 1e-12) && b[TimeCategory::bubble] < out.breakdown[TimeCategory::bubble];
    if (s == 0 || end > latest * (1 + 1e-12) || busier) {
      out.breakdown = b;
      out.slowest_role = static_cast<int>(s);
    }
    latest = std::max(latest, end);
  }
  return out;
}

}  // namespace rehearse
