#include <fmt/format.h>

#include "core/api/memory.hpp"
#include "core/api/session/session.hpp"
#include "core/cli/html_output.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verbs.hpp"
#include "core/report/pictures/memory_curve.hpp"

namespace rehearse::cli {

namespace {

int memory(const Arguments& arguments, Console& console) {
  check_output(arguments);
  check_html(arguments);
  const Session session = open_session(arguments.text("SCENARIO"), arguments.all("--set"));
  print_warnings(session.scenario, console);
  const Program program = session.lowered();
  if (arguments.has("--dry-run")) {
    console.out << resolved_json(session.scenario);
    return 0;
  }
  if (arguments.has("--over-time")) {
    print(memory_curve_document(program, MemoryRule(session.cluster),
                                fmt::format("{}: device memory over a step", session.head(program).plan.strategy)),
          arguments, console);
    return memory_report(program, session.cluster, MemoryRule(session.cluster)).fits()
               ? 0
               : static_cast<int>(ErrorKind::infeasible);
  }
  const MemoryAnswer answer = rehearse::memory(session, program);
  const Document document = to_document(answer);
  print(document, arguments, console);
  write_html("memory", document, arguments, console, [&] { return HtmlParts{{"plan", plan_json(answer.head.plan)}}; });
  return answer.fits() ? 0 : static_cast<int>(ErrorKind::infeasible);
}

}  // namespace

Verb memory_verb() {
  Verb verb{
      "memory",
      "Peak memory per stage and category, against what the GPUs have; no simulation.",
      {"rehearse memory scenarios/llama3_70b_h100_64.json",
       "rehearse memory scenarios/gpt3_175b_a100_1024.json --set strategy.recompute=none",
       "rehearse memory scenarios/llama3_70b_h100_64.json --over-time"},
      {scenario_positional()},
      result_options(),
      "Exit code 3 where it does not fit; the answer then names the change that makes it fit with the shortest step.",
      memory};
  verb.options.push_back(html_option());
  verb.options.push_back({"--over-time", "", "the curve over a step, for each kind of rank"});
  verb.options.push_back(dry_run_option());
  return verb;
}

}  // namespace rehearse::cli
