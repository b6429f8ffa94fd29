#include "core/api/session/step_answer.hpp"

#include <algorithm>
#include <cmath>

#include "core/api/session/observed.hpp"
#include "core/base/index.hpp"
#include "core/config/settings/training.hpp"
#include "core/estimate/evaluation.hpp"
#include "core/model/operator_count.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

int steps_to_play(const Session& session) { return steps_in_period(session.scenario.strategy, session.scenario.input); }

std::vector<GanttRow> role_rows(const Program& program) {
  std::vector<GanttRow> rows;
  for (std::size_t role = 0; role < program.roles.size(); ++role) {
    const auto at =
        std::find(program.role_of_rank.begin(), program.role_of_rank.end(), static_cast<std::int32_t>(role));
    if (at != program.role_of_rank.end())
      rows.push_back({program.roles[role].name, static_cast<int>(at - program.role_of_rank.begin())});
  }
  return rows;
}

namespace {

/// Sums of thousands of times leave something like 1e-17 s where nothing is, of either sign.
Breakdown without_rounding(Breakdown b, Seconds step_time) {
  for (Seconds& s : b.seconds)
    if (std::abs(s.value()) < 1e-12 * step_time.value()) s = Seconds{0};
  return b;
}

}  // namespace

StepReport report_of(const Session& session, const Program& program, const CostModel& cost, const RunResult& run,
                     MemoryReport memory) {
  const RankMetrics& slowest = run.ranks.at(static_cast<std::size_t>(run.slowest));
  StepReport out;
  out.head = session.head(program);
  out.metrics = step_metrics(program, session.cluster, session.scenario.training, run.step_time);
  const TrainingSettings& t = session.workload.training;
  if (const Network& network = session.workload.network; network.sequences)
    out.metrics.causal_mfu *= causal_model_flops(network, t.global_batch, t.sequence_length) /
                              model_flops(network, t.global_batch, t.sequence_length);
  out.range = range_of(session);
  out.memory = std::move(memory);
  out.begin = run.begin;
  out.breakdown = without_rounding(slowest.breakdown, run.step_time);
  double ranks = 0;
  for (const RankMetrics& rank : run.ranks) {
    Breakdown all = rank.breakdown;
    all *= rank.stands_for;
    out.mean += all;
    ranks += rank.stands_for;
  }
  out.mean *= 1.0 / ranks;
  out.mean = without_rounding(out.mean, run.step_time);
  out.slowest_rank = slowest.rank;
  out.slowest_role = nth(program.roles, slowest.role).name;
  out.backend = run.backend;
  out.folded = run.folded;
  out.folding = run.folding;
  out.busiest_links = run.busiest_links;
  out.link_bytes = run.link_bytes;
  out.link_time = run.link_time;
  out.evidence = cost.evidence(program);
  return out;
}

}  // namespace rehearse
