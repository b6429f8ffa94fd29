#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/cli/backend_choice.hpp"
#include "core/cli/html_output.hpp"
#include "core/cli/output.hpp"
#include "core/cli/run/run_watch.hpp"
#include "core/cli/scenario_file.hpp"
#include "core/cli/verbs.hpp"
#include "core/cli/verbs/search_setup.hpp"
#include "core/play/backend.hpp"

namespace rehearse::cli {

namespace {

constexpr int kSearchInterrupted = 130;
constexpr int kSeconds = 60;
constexpr double kLoweringShare = 1 / kPlayedShare;  // Of the time; the rest is for playing the best.

Objective objective_of(const Arguments& arguments) {
  const std::string name = arguments.text("--objective", objective_names().front());
  const auto at = std::find(objective_names().begin(), objective_names().end(), name);
  if (at != objective_names().end()) return static_cast<Objective>(at - objective_names().begin());
  Error e = unknown_name("objective", name, objective_names());
  e.where = "--objective";
  throw e;
}

/// What a number of the user must be known for.
void check_objective(Objective objective, const StepFigures& figures) {
  if (objective == Objective::cost_per_token && figures.price_per_gpu_hour <= Dollars{0})
    throw Error(ErrorKind::usage, "the price of a GPU hour is not known", "--objective cost_per_token",
                "give it: --price 2.5");
  if (objective == Objective::energy_per_token && figures.power <= Watts{0})
    throw Error(ErrorKind::usage, "the catalogue does not know the machines' power", "--objective energy_per_token",
                "choose another objective; on one cluster the fastest plan takes the least energy");
  if (objective != Objective::step_time && objective != Objective::memory && figures.tokens_per_step <= 0)
    throw Error(ErrorKind::usage, "this network's samples are not sequences of tokens", "--objective",
                "choose step_time or memory");
}

Dollars price_of(const Arguments& arguments) {
  if (!arguments.has("--price")) return {};
  char* end = nullptr;
  const std::string text = arguments.text("--price");
  const double price = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !(price > 0) || price > 1e6)
    throw Error(ErrorKind::usage, fmt::format("'{}' is not a price in US dollars", text), "--price",
                "example: --price 2.5");
  return Dollars{price};
}

/// The scenario's strategy with what was fixed, wherever dp is then.
StrategySettings wanted_strategy(const Arguments& arguments, const std::vector<std::string>& fixes,
                                 const std::set<std::string>& fixed) {
  std::vector<std::string> overrides = arguments.all("--set");
  for (const char* key : {"dp", "dp_replicate"})
    if (!fixed.contains(key)) overrides.push_back(fmt::format("strategy.{}=auto", key));
  overrides.insert(overrides.end(), fixes.begin(), fixes.end());
  return load_scenario_file(arguments.text("SCENARIO"), overrides).strategy;
}

int finish(const SearchReport& report, const Arguments& arguments, Console& console) {
  const Document document = search_document(report);
  print(document, arguments, console);
  write_html("search", document, arguments, console);
  if (report.result.interrupted) {
    console.err << "interrupted: the result is of what was evaluated until then\n";
    return kSearchInterrupted;
  }
  return report.result.best.empty() && report.shard.count == 1 ? static_cast<int>(ErrorKind::infeasible) : 0;
}

SearchOptions options_of(const Arguments& arguments, const SearchReport& report, const std::set<std::string>& fixed,
                         RunWatch& watch) {
  SearchOptions out;
  out.objective = report.objective;
  out.most_memory = report.most_memory;
  out.fixed = fixed;
  out.jobs = jobs_of(arguments);
  out.top = static_cast<int>(report.top);
  out.backend = report.backend;
  out.most_played = whole_of(arguments, "--simulate", 0, -1);
  out.shard = report.shard;
  const auto begin = std::chrono::steady_clock::now();
  const double seconds = kLoweringShare * whole_of(arguments, "--seconds", 1, kSeconds);
  out.time_spent = [begin, seconds] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / seconds;
  };
  out.stop = &RunWatch::stopped;
  out.progress = [&watch](const SearchProgress& now) {
    watch.progress(now.best > Seconds{0} ? fmt::format("{}, best {}", now.doing, to_string(now.best)) : now.doing,
                   now.done, now.all);
  };
  return out;
}

int search_plans(const Arguments& arguments, Console& console) {
  check_output(arguments);
  check_html(arguments);
  std::vector<std::string> fixes;
  for (const std::string& text : arguments.all("--fix")) fixes.push_back(fix_override(text));
  const std::set<std::string> fixed = fixed_keys(fixes);
  const StrategySettings wanted = wanted_strategy(arguments, fixes, fixed);
  const std::string file = arguments.text("SCENARIO");
  SearchSession opened = open_search_session(load_scenario_file(file, arguments.all("--set")));
  const Session& session = opened.session;
  if (!opened.own_is_a_plan)
    console.err << fmt::format(
        "note: the scenario's own strategy is no plan for this cluster, so none is held against it: {}\n", opened.note);
  SearchReport report = search_report_of(session, file);
  report.objective = objective_of(arguments);
  report.top = static_cast<std::size_t>(whole_of(arguments, "--top", 1, 10));
  report.shard = parse_shard(arguments.text("--shard"));
  report.fixed = fixes;
  report.figures.price_per_gpu_hour = price_of(arguments);
  check_objective(report.objective, report.figures);
  if (arguments.has("--max-memory")) report.most_memory = parse<Bytes>(arguments.text("--max-memory"));
  // Parts are played when they are joined.
  if (report.shard.count == 1 && whole_of(arguments, "--simulate", 0, -1) != 0)
    report.backend = chosen_backend(arguments, console);
  RunWatch watch(console.err, errors_on_terminal());
  const CostModel cost = session.cost_model();
  SearchProblem problem = problem_of(session, cost);
  SearchOptions options = options_of(arguments, report, fixed, watch);
  // What is fixed comes from `wanted`; the user's own plan is what the file says.
  report.result = search(problem, wanted, options, opened.own_is_a_plan);
  watch.clear();
  return finish(report, arguments, console);
}

}  // namespace

Verb search_verb() {
  Verb verb{"search",
            "Find the best strategies for a scenario's model on its cluster, and say why.",
            {"rehearse search scenarios/llama3_8b_h100_8.json",
             "rehearse search scenarios/gpt3_175b_a100_1024.json --fix tp=8 --max-memory 60GB",
             "rehearse search scenarios/gpt3_175b_a100_1024.json --shard 1/4 -o part1.json"},
            {scenario_positional()},
            {{"--objective", "NAME", fmt::format("what is best: {}", fmt::join(objective_names(), ", ")),
              objective_names().front()},
             {"--fix", "KEY=VALUE", "look only at plans with this setting, such as tp=8", "", true},
             {"--max-memory", "SIZE", "most that a plan may need per GPU", "what the GPUs have"},
             {"--price", "USD", "of a GPU hour, for cost_per_token"},
             {"--top", "N", "plans to show", "10"},
             {"--seconds", "N",
              "after three quarters of these nothing more is bounded by lowering, or lowered, and at their end nothing "
              "is played; what is left is counted",
              std::to_string(kSeconds)},
             {"--simulate", "N", "most plans to play; 0: closed form only", "32,768 over the GPUs, 4 to 512"},
             backend_option(),
             jobs_option(),
             shard_option()},
            "Searches every legal combination of axes, microbatch, schedule, chunks per stage, recomputation, ZeRO, "
            "FSDP, sequence parallelism, offload, context exchange and "
            "placement; all else is as the scenario says. Plans of equal layers with whole parameters are all worked "
            "out in closed form; of the rest those are lowered whose bounds on "
            "time and memory do not leave them out; the best few are played. The answer is the same for any number of "
            "threads where no plan was left for want of time. "
            "Ctrl-C ends the search and shows what was found, with exit code 130. Exit code 3 where nothing fits.",
            search_plans};
  for (Option& o : result_options()) verb.options.push_back(std::move(o));
  verb.options.push_back(html_option());
  return verb;
}

}  // namespace rehearse::cli
