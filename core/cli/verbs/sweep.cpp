#include <filesystem>

#include <fmt/format.h>

#include "core/api/build_info.hpp"
#include "core/api/session/observed.hpp"
#include "core/api/session/scenario_file.hpp"
#include "core/cli/backend_choice.hpp"
#include "core/cli/html_output.hpp"
#include "core/cli/output.hpp"
#include "core/cli/run/run_watch.hpp"
#include "core/cli/verbs.hpp"
#include "core/cli/verbs/search_setup.hpp"
#include "core/report/results/sweep_report.hpp"
#include "core/search/parallel.hpp"

namespace rehearse::cli {

namespace {

SweepPoint point_of(const std::string& file, std::vector<std::string> overrides, const std::vector<Vary>& vary,
                    std::vector<std::string> values, const std::string& backend, const std::function<bool()>& stop) {
  SweepPoint out;
  for (std::size_t k = 0; k < vary.size(); ++k) overrides.push_back(vary[k].key + "=" + values[k]);
  out.values = std::move(values);
  try {
    const Session session = open_session(file, overrides);
    const CostModel cost = session.cost_model();
    const SearchProblem problem = problem_of(session, cost);
    out.plan = plan_label(problem.own);
    out.figures = figures_of(session);
    out.range = ranges_for(session).range(kind_of(session.workload.network, session.cluster));
    out.evaluation = evaluate(problem, problem.own);
    if (out.evaluation.fits && !backend.empty()) play(problem, problem.own, backend, out.evaluation, stop);
  } catch (const Error& e) {
    if (e.kind != ErrorKind::usage) throw;
    out.evaluation.refusal = e.what();
  }
  return out;
}

std::vector<Vary> vary_of(const Arguments& arguments) {
  std::vector<Vary> out = parse_vary(arguments.all("--vary"));
  if (out.empty())
    throw Error(ErrorKind::usage, "nothing to vary", "sweep",
                "example: rehearse sweep scenarios/llama3_8b_h100_8.json --vary strategy.tp=1,2,4,8");
  return out;
}

int sweep(const Arguments& arguments, Console& console) {
  check_output(arguments);
  check_html(arguments);
  SweepReport report;
  report.vary = vary_of(arguments);
  report.file = arguments.text("SCENARIO");
  report.version = rehearse_version();
  // A file that is wrong by itself is one error, not one for each point.
  const Scenario scenario = load_scenario_file(report.file, arguments.all("--set"));
  report.scenario = std::filesystem::path(scenario.origin).stem().string();
  report.scenario_json = resolved_json(scenario);
  report.shard = parse_shard(arguments.text("--shard"));
  if (arguments.has("--backend")) report.backend = chosen_backend(arguments, console);
  std::vector<std::size_t> mine;
  for (std::size_t i = static_cast<std::size_t>(report.shard.index); i < sweep_size(report.vary);
       i += static_cast<std::size_t>(report.shard.count))
    mine.push_back(i);
  std::vector<std::optional<SweepPoint>> points(mine.size());
  std::atomic<std::size_t> done{0};
  RunWatch watch(console);
  // One platform at a time is simulated in a process.
  const int jobs = report.backend.empty() ? jobs_of(arguments) : 1;
  const std::function<bool()> stop = watch.stop();
  parallel_for(
      jobs, mine.size(), stop,
      [&](std::size_t i) {
        SweepPoint point = point_of(report.file, arguments.all("--set"), report.vary,
                                    sweep_values(report.vary, mine[i]), report.backend, stop);
        if (!report.backend.empty() && watch.stopped()) return;
        points[i] = std::move(point);
        ++done;
      },
      [&] {
        watch.progress(fmt::format("{} points", mine.size()), static_cast<double>(done),
                       static_cast<double>(mine.size()));
      });
  report.interrupted = watch.stopped();
  watch.clear();
  bool fits = false;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!points[i]) continue;
    fits = fits || points[i]->evaluation.fits;
    report.numbers.push_back(mine[i]);
    report.points.push_back(std::move(*points[i]));
  }
  const Document document = sweep_document(report);
  print(document, arguments, console);
  write_html("sweep", document, arguments, console);
  if (report.interrupted) {
    console.err << fmt::format("interrupted: the result has {} of {} points\n", report.points.size(), mine.size());
    return kInterrupted;
  }
  return fits || report.shard.count > 1 ? 0 : static_cast<int>(ErrorKind::infeasible);
}

}  // namespace

Verb sweep_verb() {
  Verb verb{"sweep",
            "Try every combination of some keys' values.",
            {"rehearse sweep scenarios/llama3_8b_h100_8.json --vary strategy.tp=1,2,4,8 --vary strategy.microbatch=1,2",
             "rehearse sweep scenarios/gpt3_175b_a100_1024.json --vary cluster.nodes=64,128,256 --vary pp=4,8,16 --set "
             "strategy.dp=auto --format csv"},
            {scenario_positional()},
            {{"--vary", "KEY=VALUE,...",
              "a key of the scenario and the values it takes; a value with commas stands in brackets", "", true},
             {"--backend", "NAME", "play every point: 'rehearse list backends'", "closed form"},
             jobs_option(),
             shard_option()},
            "The first key varies slowest. Points that make no sense are listed with the reason. An axis that varies "
            "needs another that gives way: strategy.dp=auto. Ctrl-C ends "
            "the sweep and shows the points that were evaluated, with exit code 130. Exit code 3 where no point fits.",
            sweep};
  for (Option& o : result_options()) verb.options.push_back(std::move(o));
  verb.options.push_back(html_option());
  return verb;
}

}  // namespace rehearse::cli
