#include <charconv>
#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/api/pictures.hpp"
#include "core/api/session/observed.hpp"
#include "core/api/session/session.hpp"
#include "core/api/session/step_answer.hpp"
#include "core/api/session/what_if.hpp"
#include "core/api/step.hpp"
#include "core/cli/backend_choice.hpp"
#include "core/cli/html_output.hpp"
#include "core/cli/output.hpp"
#include "core/cli/run/measured_step.hpp"
#include "core/cli/run/run_watch.hpp"
#include "core/cli/verbs.hpp"
#include "core/cli/verbs/simulate_together.hpp"
#include "core/import/traces/measured_workload.hpp"
#include "core/report/pictures/kineto_trace.hpp"

namespace rehearse::cli {

namespace {

int rank_number(std::string_view text, int ranks) {
  int value = -1;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || end != text.data() + text.size() || value < 0 || value >= ranks)
    throw Error(ErrorKind::usage, fmt::format("'{}' is not a rank from 0 to {}", text, ranks - 1), "--trace-ranks",
                "example: --trace-ranks 0-7,64");
  return value;
}

/// "0-7,64"
std::set<int> parse_ranks(std::string_view text, int ranks) {
  std::set<int> out;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const auto dash = part.find('-');
    const int first = rank_number(part.substr(0, dash), ranks);
    const int last = dash == std::string_view::npos ? first : rank_number(part.substr(dash + 1), ranks);
    for (int r = first; r <= last; ++r) out.insert(r);
  }
  return out;
}

/// Those that were asked for; with --trace those of every stage, too.
std::set<int> ranks_to_trace(const Program& program, const Arguments& arguments) {
  std::set<int> ranks = parse_ranks(arguments.text("--trace-ranks"), program.mesh.ranks());
  if (arguments.has("--trace"))
    for (const GanttRow& row : role_rows(program)) ranks.insert(row.rank);
  return ranks;
}

/// Whether a trace goes to a folder, a file for each rank.
bool is_folder(const std::string& path) { return std::filesystem::is_directory(path); }

Trace of_ranks(const Trace& trace, const std::set<int>& ranks) {
  Trace out = trace;
  std::erase_if(out.spans, [&](const Span& s) { return !ranks.contains(s.rank); });
  return out;
}
/// What goes on in the step that is reported, and not in one that was played before it.
Trace from(const Trace& trace, Seconds begin) {
  Trace out = trace;
  std::erase_if(out.spans, [&](const Span& s) { return s.end <= begin; });
  return out;
}

void write_trace(const std::string& path, const Trace& trace, Seconds begin, const Program& program,
                 const Session& session, Console& console) {
  const auto write = [&](const std::string& file, const Trace& spans) {
    const auto out = open_output(file);
    write_kineto(spans, program, session.cluster, program.name, *out);
    out->close();
  };
  if (!is_folder(path)) {
    write(path, trace);
    console.err << fmt::format("wrote {}: {} spans; open it at https://ui.perfetto.dev\n", path, trace.spans.size());
    return;
  }
  std::set<int> ranks;
  for (const Span& s : trace.spans) ranks.insert(s.rank);
  for (const int rank : ranks)
    write((std::filesystem::path(path) / fmt::format("rank{}.json.gz", rank)).string(),
          from(of_ranks(trace, {rank}), begin));
  console.err << fmt::format("wrote {} files to {}, one for each of the ranks {}\n", ranks.size(), path,
                             fmt::join(ranks, ", "));
}

/// Ranks that were asked for, and that others stood for.
void tell_of_folded(std::set<int> asked, const Trace& trace, Console& console) {
  for (const Span& s : trace.spans) asked.erase(s.rank);
  if (!asked.empty())
    console.err << fmt::format(
        "not in the trace: rank{} {}, which {} played as one with another that does the same; --no-fold plays each\n",
        asked.size() == 1 ? "" : "s", fmt::join(asked, ", "), asked.size() == 1 ? "is" : "are");
}

void change(Session& session, const Arguments& arguments) {
  try {
    apply_what_if(session, arguments.all("--what-if"));
  } catch (Error& e) {
    e.where = "--what-if " + e.where;
    throw;
  }
}

int does_not_fit(const StepReport& report, const Arguments& arguments, Console& console) {
  const Document document = to_document(report);
  print(document, arguments, console);
  write_html("memory", document, arguments, console, [&] { return HtmlParts{{"plan", plan_json(report.head.plan)}}; });
  return static_cast<int>(ErrorKind::infeasible);
}

int simulate(const Arguments& arguments, Console& console) {
  const bool measured = is_measured_workload(arguments.text("SCENARIO"));
  check_output(arguments, !measured);
  check_html(arguments);
  check_together(arguments);
  if (arguments.has("--together")) return simulate_together(arguments, console);
  if (measured) return simulate_measured(arguments.text("SCENARIO"), arguments, console);
  std::optional<RunWatch> watch(std::in_place, console);
  Session session = open_session(arguments.text("SCENARIO"), arguments.all("--set"));
  print_warnings(session.scenario, console);
  change(session, arguments);
  observe(session, arguments.all("--observed"));
  if (arguments.has("--dry-run")) {
    (void)session.lowered();
    console.out << resolved_json(session.scenario);
    return 0;
  }
  SimulateOptions options;
  options.backend = chosen_backend(arguments, console);
  options.fold = !arguments.has("--no-fold");
  options.all_flows =
      arguments.has("--all-flows") || (arguments.has("--trace") && is_folder(arguments.text("--trace")));
  options.despite_memory = arguments.has("--despite-memory");
  options.progress = [&](const RunProgress& now) { watch->progress(now); };
  const Program program = session.lowered();
  options.traced = ranks_to_trace(program, arguments);
  watch->check();
  const StepReport report = rehearse::simulate(session, program, options);
  watch->check();
  watch.reset();  // From here on Ctrl-C ends the program, and what it was writing goes.
  if (!report.trace) return does_not_fit(report, arguments, console);
  const Document document = to_document(report);
  print(document, arguments, console);
  if (arguments.has("--trace")) {
    const std::set<int> asked = parse_ranks(arguments.text("--trace-ranks"), program.mesh.ranks());
    tell_of_folded(asked, *report.trace, console);
    const Trace trace = asked.empty() ? *report.trace : of_ranks(*report.trace, asked);
    if (trace.spans.empty())
      throw Error(ErrorKind::usage, "none of these ranks is played by itself", "--trace-ranks",
                  "add --no-fold, or leave --trace-ranks out: then a rank of each stage is traced");
    write_trace(arguments.text("--trace"), trace, report.begin, program, session, console);
  }
  write_html("simulate", document, arguments, console, [&] { return step_pictures(session, program, report); });
  return report.memory.fits() ? 0 : static_cast<int>(ErrorKind::infeasible);
}

/// One, or several that are played together.
Positional scenarios_positional() {
  Positional out = scenario_positional();
  out.repeatable = true;
  return out;
}

}  // namespace

Verb simulate_verb() {
  Verb verb{
      "simulate",
      "Play one training step and say how long it takes, why, and whether it fits.",
      {"rehearse simulate scenarios/gpt3_175b_a100_1024.json",
       "rehearse simulate scenarios/llama3_8b_h100_8.json --set strategy.tp=2 --format json",
       "rehearse simulate scenarios/llama3_70b_h100_64.json --trace step.json.gz",
       "rehearse simulate scenarios/llama3_70b_h100_64.json --what-if straggler=5:1.2 --what-if fail=nic:node0/NIC3",
       "rehearse simulate scenarios/llama3_70b_h100_64.json scenarios/llama3_70b_h100_64.json --together --interleave"},
      {scenarios_positional()},
      {backend_option()},
      "Exit code 3 where the plan does not fit into memory, and no times unless --despite-memory asks for them. Ranks "
      "that provably do the same at the same times are played as "
      "one; the result says so, and --no-fold plays each. Collectives inside one node, on wires of their own, are "
      "timers; --all-flows plays their "
      "flows, too. On a terminal a long run shows how far it is; Ctrl-C ends it with exit code 130.",
      simulate};
  for (Option& o : result_options()) verb.options.push_back(std::move(o));
  verb.options.push_back(html_option());
  verb.options.push_back(observed_option());
  verb.options.push_back(
      {"--trace", "FILE",
       "write a trace for Perfetto and PyTorch's tools; compressed where the name ends in .gz. A folder gets a "
       "file for each rank, with the calls inside layers, as --all-flows plays them"});
  verb.options.push_back({"--trace-ranks", "LIST", "ranks to trace, such as 0-7,64, and no others", "one per stage"});
  verb.options.push_back({"--what-if", "CHANGE",
                          "link=NAME:0.5 (rate of links, * for anything), straggler=RANK:1.2 (time of a rank's "
                          "kernels), fail=nic:NODE/NIC",
                          "", true});
  verb.options.push_back({"--no-fold", "", "play every rank by itself"});
  verb.options.push_back({"--all-flows", "", "play collectives inside nodes as flows, too, task by task"});
  verb.options.push_back(despite_memory_option());
  verb.options.push_back(dry_run_option());
  for (Option& o : together_options()) verb.options.push_back(std::move(o));
  return verb;
}

}  // namespace rehearse::cli
