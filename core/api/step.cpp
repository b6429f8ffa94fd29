#include "core/api/step.hpp"

#include <fmt/format.h>

#include "core/api/backend_choice.hpp"
#include "core/api/memory.hpp"
#include "core/api/session/observed.hpp"
#include "core/api/session/session.hpp"
#include "core/api/session/step_answer.hpp"
#include "core/api/session/what_if.hpp"
#include "core/base/index.hpp"
#include "core/estimate/estimate.hpp"

namespace rehearse {

namespace {

/// The closed form's answer in the shape of a played one: the slowest stage stands for all.
RunResult as_result(const Program& program, const Estimate& e) {
  RunResult run;
  run.backend = "closed form";
  run.step_time = e.step_time;
  RankMetrics slowest;
  slowest.role = e.slowest_role;
  while (nth(program.role_of_rank, slowest.rank) != e.slowest_role) ++slowest.rank;
  slowest.breakdown = e.breakdown;
  run.ranks.push_back(std::move(slowest));
  run.folded = true;
  run.folding = "one rank stands for each stage";
  return run;
}

/// What is said of a plan that does not fit.
StepReport without_times(MemoryAnswer&& answer) {
  StepReport out;
  out.head = std::move(answer.head);
  out.memory = std::move(answer.memory);
  return out;
}

void refuse_breaches(const RunResult& run) {
  if (run.breaches.empty()) return;
  std::string list;
  for (const Breach& b : run.breaches) list += fmt::format("\n  {}: {}", b.rule, b.detail);
  throw Error(ErrorKind::check_failed,
              fmt::format("the result breaks physics in {} place{} and is not shown:{}", run.breaches.size(),
                          run.breaches.size() == 1 ? "" : "s", list),
              run.backend, "please report it with the scenario that shows it");
}

RunOptions run_options(const Session& session, const SimulateOptions& options) {
  RunOptions out;
  out.steps = steps_to_play(session);
  out.fold = options.fold;
  out.all_flows = options.all_flows || session.changes.links;
  out.progress = options.progress;
  return out;
}

}  // namespace

StepReport estimate(const Session& session, const Program& program, const EstimateOptions& options) {
  MemoryAnswer answer = memory(session, program, options.suggest);
  if (!answer.fits() && !options.despite_memory) return without_times(std::move(answer));
  const CostModel cost = session.cost_model();
  const Estimate e = estimate(program, cost, session.scenario.strategy, steps_to_play(session));
  return report_of(session, program, cost, as_result(program, e), std::move(answer.memory));
}

StepReport estimate(const Scenario& scenario, const EstimateOptions& options) {
  Session session = open_session(scenario, {.data = options.data});
  observe(session, options.observed);
  return estimate(session, session.lowered(), options);
}

StepReport simulate(const Session& session, const Program& program, const SimulateOptions& options) {
  const std::string backend = known_backend(options.backend);
  MemoryAnswer answer = memory(session, program, options.suggest);
  if (!answer.fits() && !options.despite_memory) return without_times(std::move(answer));
  std::vector<GanttRow> rows;
  if (options.pictured > 0) rows = sampled(role_rows(program), options.pictured);
  std::set<int> traced = options.traced;
  for (const GanttRow& row : rows) traced.insert(row.rank);
  auto trace = std::make_shared<Trace>(std::vector<int>(traced.begin(), traced.end()));
  trace->streams = program.stream_names();
  const CostModel cost = session.cost_model();
  const RunResult run =
      backends().at(backend).value()->run(program, session.cluster, cost, run_options(session, options), *trace);
  refuse_breaches(run);
  StepReport report = report_of(session, program, cost, run, std::move(answer.memory));
  if (!session.changes.words.empty()) report.folding += "; what if " + session.changes.words;
  report.trace = std::move(trace);
  report.rows = std::move(rows);
  return report;
}

StepReport simulate(const Scenario& scenario, const SimulateOptions& options) {
  Session session = open_session(scenario, {.data = options.data});
  apply_what_if(session, options.what_if);
  observe(session, options.observed);
  return simulate(session, session.lowered(), options);
}

Document to_document(const StepReport& report) {
  const bool timed = report.memory.fits() || report.metrics.step_time > Seconds{0};
  return timed ? step_document(report) : memory_document(report.head, report.memory);
}
std::string to_json(const StepReport& report) { return to_document(report).json; }

}  // namespace rehearse
