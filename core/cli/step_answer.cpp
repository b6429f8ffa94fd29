#include "core/cli/step_answer.hpp"

namespace rehearse::cli {

int steps_to_play(const Session& session) {
  const StrategySettings& s = session.scenario.strategy;
  if (session.scenario.input.sample > Bytes{0}) return 4;  // Loaders run ahead: the first steps do not show their pace.
  if (s.fsdp.enabled || s.offload == Offload::optimizer || s.data_parallel != DataParallelism::replicas) return 2;
  return s.zero_stage > 0 && s.dp > 1 && s.overlap.param_gather ? 2 : 1;
}

StepReport report_of(const Session& session, const Program& program, const CostModel& cost, const RunResult& run, MemoryReport memory) {
  const RankMetrics& slowest = run.ranks.at(static_cast<std::size_t>(run.slowest));
  StepReport out;
  out.head = session.head(program);
  out.metrics = step_metrics(program, session.cluster, session.scenario.training, run.step_time);
  out.memory = std::move(memory);
  out.breakdown = slowest.breakdown;
  out.slowest_rank = slowest.rank;
  out.slowest_role = program.roles[static_cast<std::size_t>(slowest.role)].name;
  out.backend = run.backend;
  out.folded = run.folded;
  out.folding = run.folding;
  out.busiest_links = run.busiest_links;
  out.evidence = cost.evidence(program);
  return out;
}

}  // namespace rehearse::cli
