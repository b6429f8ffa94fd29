#include "core/api/pictures.hpp"
#include "core/api/session/observed.hpp"
#include "core/api/session/session.hpp"
#include "core/api/step.hpp"
#include "core/cli/html_output.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verbs.hpp"

namespace rehearse::cli {

namespace {

int estimate_step(const Arguments& arguments, Console& console) {
  check_output(arguments);
  check_html(arguments);
  Session session = open_session(arguments.text("SCENARIO"), arguments.all("--set"));
  print_warnings(session.scenario, console);
  observe(session, arguments.all("--observed"));
  const Program program = session.lowered();
  if (arguments.has("--dry-run")) {
    console.out << resolved_json(session.scenario);
    return 0;
  }
  EstimateOptions options;
  options.despite_memory = arguments.has("--despite-memory");
  const StepReport report = rehearse::estimate(session, program, options);
  const bool fits = report.memory.fits();
  const Document document = to_document(report);
  print(document, arguments, console);
  write_html(fits ? "estimate" : "memory", document, arguments, console,
             [&] { return step_pictures(session, program, report); });
  return fits ? 0 : static_cast<int>(ErrorKind::infeasible);
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
  verb.options.push_back(observed_option());
  verb.options.push_back(html_option());
  verb.options.push_back(despite_memory_option());
  verb.options.push_back(dry_run_option());
  return verb;
}

}  // namespace rehearse::cli
