#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/api/session/step_answer.hpp"
#include "core/api/step.hpp"
#include "core/cli/backend_choice.hpp"
#include "core/cli/html_output.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verbs.hpp"
#include "core/config/json_file.hpp"
#include "core/config/json_text.hpp"
#include "core/import/traces/read_trace.hpp"
#include "core/import/traces/trace_comparison.hpp"
#include "core/report/html/gantt_data.hpp"
#include "core/report/results/comparison.hpp"

namespace rehearse::cli {

namespace {

/// "FILE@strategy.tp=2@strategy.pp=4".
struct Wanted {
  std::string file;
  std::vector<std::string> changes;
};

Wanted parse_wanted(const std::string& word) {
  if (is_json_text(word)) return {word, {}};
  Wanted out;
  std::size_t at = word.find('@');
  out.file = word.substr(0, at);
  while (at != std::string::npos) {
    const std::size_t next = word.find('@', at + 1);
    out.changes.push_back(word.substr(at + 1, next == std::string::npos ? next : next - at - 1));
    if (out.changes.back().find('=') == std::string::npos)
      throw Error(ErrorKind::usage, fmt::format("'{}' after '@' is not KEY=VALUE", out.changes.back()), word,
                  "example: scenarios/llama3_8b_h100_8.json@strategy.tp=8");
    at = next;
  }
  return out;
}

/// Whether the file is an answer rather than a question.
bool is_result(const std::string& file) { return begins_with_schema(file, kResultSchema); }

ComparedStep compared(const Wanted& wanted, const std::vector<std::string>& all, const std::string& backend,
                      bool fold) {
  std::vector<std::string> changes = all;
  changes.insert(changes.end(), wanted.changes.begin(), wanted.changes.end());
  const Session session = open_session(wanted.file, changes);
  const Program program = session.lowered();
  SimulateOptions options;
  options.backend = backend;
  options.fold = fold;
  options.suggest = false;
  options.pictured = 8;
  const StepReport report = simulate(session, program, options);
  ComparedStep out;
  out.plan = report.head.plan;
  out.fits = report.memory.fits();
  out.needed = report.memory.tightest().needed;
  out.capacity = report.memory.tightest().capacity;
  if (!out.fits) return out;
  const StepReport answered = with_bias(report);
  out.rows = report.rows;
  out.metrics = answered.metrics;
  out.breakdown = answered.breakdown;
  out.modelled = report.metrics.step_time;
  out.range = report.range;
  out.begin = report.begin;
  out.trace = report.trace;
  return out;
}

/// One pipeline per plan that was played, with the name that the page knows it by.
HtmlParts pipelines_of(const std::vector<ComparedStep>& steps) {
  auto list = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const ComparedStep& s = steps[i];
    if (!s.trace || s.rows.empty()) continue;
    list.push_back(nlohmann::ordered_json::parse(gantt_json({{s.trace.get(), s.rows, s.begin, s.modelled}})));
    list.back()["name"] = std::string(1, static_cast<char>('A' + i % 26));
  }
  return {{"gantts", list.dump()}};
}

/// Traces of the ranks of one job, and one scenario.
int compare_trace(const std::vector<std::string>& words, const Arguments& arguments, Console& console) {
  if (arguments.has("--html"))
    throw Error(ErrorKind::usage, "a trace beside a scenario makes a table, no page", "--html",
                "--format json, or simulate SCENARIO --html for its page");
  std::vector<RankTrace> ranks;
  std::vector<std::string> scenarios;
  for (const std::string& word : words)
    if (!is_trace(word)) scenarios.push_back(word);
  if (scenarios.size() != 1)
    throw Error(ErrorKind::usage, fmt::format("{} scenarios beside the trace", scenarios.size()), "compare",
                "name the traces of one job's ranks, and one scenario");
  for (const std::string& word : words)
    if (is_trace(word))
      for (RankTrace& r : read_trace(word)) ranks.push_back(std::move(r));
  const JobTrace job = align(std::move(ranks));
  const Wanted wanted = parse_wanted(scenarios.front());
  std::vector<std::string> changes = arguments.all("--set");
  changes.insert(changes.end(), wanted.changes.begin(), wanted.changes.end());
  const Session session = open_session(wanted.file, changes);
  const Program program = session.lowered();
  SimulateOptions options;
  options.backend = chosen_backend(arguments, console);
  options.fold = !arguments.has("--no-fold");
  options.suggest = false;
  options.despite_memory = true;  // The job ran.
  options.pictured = 0;
  for (const RankTrace& r : job.ranks)
    if (r.rank < program.mesh.ranks()) options.traced.insert(r.rank);
  // Folded ranks leave no spans: one of each role stands for them.
  if (options.traced.empty() || !arguments.has("--no-fold"))
    for (const GanttRow& row : role_rows(program)) options.traced.insert(row.rank);
  options.all_flows = true;  // So that each collective leaves its own span.
  const StepReport report = simulate(session, program, options);
  std::set<int> played;
  for (const Span& s : report.trace->spans) played.insert(s.rank);
  const CostModel cost = session.cost_model();
  print(trace_comparison(job, {scenarios.front(),
                               &program,
                               &cost,
                               report.trace.get(),
                               {played.begin(), played.end()},
                               report.begin,
                               report.metrics.step_time}),
        arguments, console);
  return 0;
}

int compare(const Arguments& arguments, Console& console) {
  check_output(arguments);
  check_html(arguments);
  const std::vector<std::string> words = arguments.all("PLAN");
  if (std::any_of(words.begin(), words.end(), is_trace)) return compare_trace(words, arguments, console);
  if (words.size() < 2)
    throw Error(ErrorKind::usage, "one plan alone has nothing to be compared with", "compare",
                "name two or more; 'rehearse simulate' shows one");
  std::vector<Wanted> wanted;
  for (const std::string& word : words) wanted.push_back(parse_wanted(word));
  const std::string backend = chosen_backend(arguments, console);
  std::vector<ComparedStep> steps;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const Wanted& w = wanted[i];
    if (is_result(w.file)) {
      if (!w.changes.empty())
        throw Error(ErrorKind::usage, "a stored result cannot be changed", words[i], "compare the scenario instead");
      steps.push_back(read_result(read_text(w.file), w.file));
    } else {
      steps.push_back(compared(w, arguments.all("--set"), backend, !arguments.has("--no-fold")));
    }
    steps.back().name = origin_of(words[i]);
  }
  const Document document = comparison_document(steps);
  print(document, arguments, console);
  write_html("compare", document, arguments, console, [&] { return pipelines_of(steps); });
  return std::none_of(steps.begin(), steps.end(), [](const ComparedStep& s) { return s.fits; })
             ? static_cast<int>(ErrorKind::infeasible)
             : 0;
}

}  // namespace

Verb compare_verb() {
  Verb verb{"compare",
            "Play two or more plans, and say where their difference comes from.",
            {"rehearse compare scenarios/llama3_8b_h100_8.json scenarios/llama3_8b_h100_8.json@strategy.tp=8",
             "rehearse compare before.json after.json --format md",
             "rehearse compare rank0.json.gz rank1.json.gz scenarios/llama3_8b_h100_8.json"},
            {{"PLAN",
              "scenario file, with changes after it as in FILE@strategy.tp=2; a result that --format json wrote; or "
              "traces of one job's ranks and one scenario",
              true, true}},
            {backend_option()},
            "The first plan that fits is what the others are held against; differences by category add up to the "
            "difference of the step times. --set "
            "changes every scenario alike. Exit code 3 where none fits. With traces, time per class of kernel and per "
            "collective is set against what the simulation "
            "takes, waiting apart from communication.",
            compare};
  for (Option& o : result_options()) verb.options.push_back(std::move(o));
  verb.options.push_back(html_option());
  verb.options.push_back({"--no-fold", "", "play every rank by itself"});
  return verb;
}

}  // namespace rehearse::cli
