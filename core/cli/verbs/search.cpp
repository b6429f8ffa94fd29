#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/api/search.hpp"
#include "core/api/session/observed.hpp"
#include "core/api/session/scenario_file.hpp"
#include "core/cli/backend_choice.hpp"
#include "core/cli/html_output.hpp"
#include "core/cli/output.hpp"
#include "core/cli/run/run_watch.hpp"
#include "core/cli/verbs.hpp"
#include "core/cli/verbs/search_setup.hpp"

namespace rehearse::cli {

namespace {

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

int finish(const SearchReport& report, const Arguments& arguments, Console& console) {
  const Document document = search_document(report);
  print(document, arguments, console);
  write_html("search", document, arguments, console);
  if (report.result.interrupted) {
    console.err << "interrupted: the result is of what was evaluated until then\n";
    return kInterrupted;
  }
  if (!report.result.best.empty() || report.shard.count > 1) return 0;
  // What there was no time for may fit.
  return static_cast<int>(report.result.left > 0 ? ErrorKind::check_failed : ErrorKind::infeasible);
}

SearchRequest request_of(const Arguments& arguments, Console& console) {
  SearchRequest out;
  for (const std::string& text : arguments.all("--fix")) out.fix.push_back(fix_of(text));
  out.objective = objective_of(arguments);
  out.top = static_cast<std::size_t>(whole_of(arguments, "--top", 1, 10));
  out.shard = parse_shard(arguments.text("--shard"));
  out.price_per_gpu_hour = price_of(arguments);
  if (arguments.has("--max-memory")) out.most_memory = parse<Bytes>(arguments.text("--max-memory"));
  out.most_played = whole_of(arguments, "--simulate", 0, -1);
  if (out.shard.count == 1 && out.most_played != 0) out.backend = chosen_backend(arguments, console);
  out.jobs = jobs_of(arguments);
  return out;
}

void watch_over(SearchRequest& request, const Arguments& arguments, RunWatch& watch) {
  const auto begin = std::chrono::steady_clock::now();
  const double seconds = kLoweringShare * whole_of(arguments, "--seconds", 1, kSeconds);
  request.time_spent = [begin, seconds] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / seconds;
  };
  request.stop = watch.stop();
  request.progress = [&watch](const SearchProgress& now) {
    watch.progress(now.best > Seconds{0} ? fmt::format("{}, best {}", now.doing, to_string(now.best)) : now.doing,
                   now.done, now.all);
  };
}

/// What an objective lacks is an option.
SearchReport searched(const SearchSession& opened, const SearchRequest& request) {
  try {
    return search(opened, request);
  } catch (Error& e) {
    if (e.where.starts_with("objective")) e.where = "--" + e.where;
    if (e.where == "--objective cost_per_token") e.hint = "give it: --price 2.5";
    throw;
  }
}

int search_plans(const Arguments& arguments, Console& console) {
  check_output(arguments);
  check_html(arguments);
  const Scenario scenario = load_scenario_file(arguments.text("SCENARIO"), arguments.all("--set"));
  SearchRequest request = request_of(arguments, console);
  SearchSession opened = open_search_session(scenario);
  print_warnings(opened.session.scenario, console);
  observe(opened.session, arguments.all("--observed"));
  if (!opened.own_is_a_plan)
    console.err << fmt::format(
        "note: the scenario's own strategy is no plan for this cluster, so none is held against it: {}\n", opened.note);
  RunWatch watch(console);
  watch_over(request, arguments, watch);
  const SearchReport report = searched(opened, request);
  watch.clear();
  return finish(report, arguments, console);
}

}  // namespace

Verb search_verb() {
  Verb verb{
      "search",
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
        "after five sixths of these nothing more is bounded by lowering, or lowered, and at their end nothing is "
        "played; what is left is counted",
        std::to_string(kSeconds)},
       {"--simulate", "N", "most plans to play; 0: closed form only", "32,768 over the GPUs, 4 to 512"},
       backend_option(),
       jobs_option(),
       shard_option()},
      "Searches the legal combinations of axes, microbatch, schedule, chunks per stage, recomputation, ZeRO, FSDP, "
      "sequence parallelism, offload, context exchange and placement; all else is as the scenario says. It begins with "
      "the scenario's own plan and one of each family, and goes from the best known to plans that differ in one "
      "choice, so that an answer comes within seconds. Of a space of up to 600,000 plans every one is then worked out, "
      "or left "
      "out because its bounds on time and memory say that it is not among the best; in a larger one the guided search "
      "goes on. The best few are played. The report says how many plans are excluded by proof (their kernels alone "
      "take longer) and how many by bounds with chosen margins, how much of the space was not come to, and what the "
      "plans there take at least. The answer is the same for any number of threads where time sufficed for all plans. "
      "Ctrl-C ends the search and shows what was found, with exit code 130. Exit code 3 where nothing fits, 1 where "
      "nothing was found in time.",
      search_plans};
  for (Option& o : result_options()) verb.options.push_back(std::move(o));
  verb.options.push_back(observed_option());
  verb.options.push_back(html_option());
  return verb;
}

}  // namespace rehearse::cli
