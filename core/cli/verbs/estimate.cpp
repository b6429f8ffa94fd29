#include "core/estimate/estimate.hpp"
#include "core/cli/html_output.hpp"
#include "core/cli/output.hpp"
#include "core/cli/session.hpp"
#include "core/cli/step_answer.hpp"
#include "core/cli/verbs.hpp"

namespace rehearse::cli {

namespace {

/// The closed form's answer in the shape of a played one: the slowest stage stands for all.
RunResult as_result(const Program& program, const Estimate& e) {
  RunResult run;
  run.backend = "closed form";
  run.step_time = e.step_time;
  RankMetrics slowest;
  slowest.role = e.slowest_role;
  while (program.role_of_rank[static_cast<std::size_t>(slowest.rank)] != e.slowest_role) ++slowest.rank;
  slowest.breakdown = e.breakdown;
  run.ranks.push_back(std::move(slowest));
  run.folded = true;
  run.folding = "one rank stands for each stage";
  return run;
}

int estimate_step(const Arguments& arguments, Console& console) {
  check_output(arguments);
  check_html(arguments);
  const Session session = open_session(arguments.text("SCENARIO"), arguments.all("--set"));
  const Program program = session.lowered();
  if (arguments.has("--dry-run")) {
    console.out << resolved_json(session.scenario);
    return 0;
  }
  MemoryReport memory = check_memory(session, program);
  const auto plan = [&] { return HtmlParts{{"plan", plan_json(session.head(program).plan)}}; };
  if (!memory.fits()) {
    const Document document = memory_document(session.head(program), memory);
    print(document, arguments, console);
    write_html("memory", document, arguments, console, plan);
    return static_cast<int>(ErrorKind::infeasible);
  }
  const CostModel cost = session.cost_model();
  const Estimate e = estimate(program, cost, session.scenario.strategy, steps_to_play(session));
  const Document document = step_document(report_of(session, program, cost, as_result(program, e), std::move(memory)));
  print(document, arguments, console);
  write_html("estimate", document, arguments, console, plan);
  return 0;
}

}  // namespace

Verb estimate_verb() {
  Verb verb{"estimate",
            "How long a step takes, in closed form: no simulation, no contention.",
            {"rehearse estimate scenarios/llama3_70b_h100_64.json",
             "rehearse estimate scenarios/gpt3_175b_a100_1024.json --set strategy.bucket=100MB --format json"},
            {scenario_positional()},
            result_options(),
            "Prices every body once and uses the schedule's recurrence. 'simulate' plays the same Program and sees "
            "what shares a wire.",
            estimate_step};
  verb.options.push_back(html_option());
  verb.options.push_back(dry_run_option());
  return verb;
}

}  // namespace rehearse::cli
