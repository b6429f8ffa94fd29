#include <algorithm>

#include <fmt/format.h>

#include "core/cli/backend_choice.hpp"
#include "core/cli/html_output.hpp"
#include "core/cli/output.hpp"
#include "core/cli/run/run_watch.hpp"
#include "core/cli/verbs.hpp"
#include "core/cli/verbs/search_setup.hpp"
#include "core/config/json_file.hpp"
#include "core/report/results/sweep_report.hpp"

namespace rehearse::cli {

namespace {

struct NamedPart {
  std::string file;
  SearchPart part;
};

void check_same(const std::vector<NamedPart>& parts) {
  std::vector<std::pair<std::string, SearchShard>> shards;
  const SearchReport& first = parts.front().part.report;
  for (const NamedPart& p : parts) {
    const SearchReport& r = p.part.report;
    shards.emplace_back(p.file, r.shard);
    if (r.scenario_json != first.scenario_json || r.objective != first.objective || r.fixed != first.fixed ||
        r.most_memory != first.most_memory || r.top != first.top)
      throw Error(ErrorKind::usage, fmt::format("is part of another search than {}", parts.front().file), p.file,
                  "all parts need the same scenario and options");
  }
  check_shards(shards);
}

/// All that the parts found, with settings again.
SearchResult joined(std::vector<NamedPart>& parts, const std::vector<std::string>& fixes) {
  SearchResult out;
  for (NamedPart& p : parts) {
    SearchResult& r = p.part.report.result;
    out.combinations = r.combinations;
    out.whole = out.whole && r.whole;
    out.at_peak = r.at_peak;
    out.legal += r.legal;
    out.fit += r.fit;
    out.evaluated += r.evaluated;
    out.lowered += r.lowered;
    out.bounded += r.bounded;
    out.proven += r.proven;
    if (r.left > 0) out.least_left = out.left == 0 ? r.least_left : std::min(out.least_left, r.least_left);
    out.left += r.left;
    out.interrupted = out.interrupted || r.interrupted;
    for (std::size_t i = 0; i < r.best.size(); ++i) {
      std::vector<std::string> overrides = fixes;
      overrides.insert(overrides.end(), p.part.overrides[i].begin(), p.part.overrides[i].end());
      r.best[i].settings = parse_scenario(p.part.report.scenario_json, p.file, overrides).strategy;
      out.best.push_back(r.best[i]);
    }
    for (const std::size_t i : p.part.front) add_to_front(out.front, r.best[i]);
  }
  return out;
}

int merge_searches(std::vector<NamedPart> parts, const Arguments& arguments, Console& console) {
  check_same(parts);
  const SearchReport& first = parts.front().part.report;
  SearchSession opened = open_search_session(parse_scenario(first.scenario_json, parts.front().file));
  const Session& session = opened.session;
  SearchReport report = search_report_of(session, first.file);
  report.objective = first.objective;
  report.top = first.top;
  report.fixed = first.fixed;
  report.most_memory = first.most_memory;
  report.figures.price_per_gpu_hour = first.figures.price_per_gpu_hour;
  SearchOptions options;
  options.objective = first.objective;
  options.most_memory = first.most_memory;
  options.top = static_cast<int>(first.top);
  options.most_played = whole_of(arguments, "--simulate", 0, -1);
  if (options.most_played != 0) options.backend = report.backend = chosen_backend(arguments, console);
  RunWatch watch(console);
  options.stop = watch.stop();
  options.progress = [&watch](const SearchProgress& now) { watch.progress(now.doing, now.done, now.all); };
  const CostModel cost = session.cost_model();
  const SearchProblem problem = problem_of(session, cost);
  report.result = joined(parts, first.fixed);
  play_best(problem, options, opened.own_is_a_plan, report.result);
  watch.clear();
  const Document document = search_document(report);
  print(document, arguments, console);
  write_html("search", document, arguments, console);
  if (watch.stopped()) {
    console.err << "interrupted: fewer plans were played\n";
    return kInterrupted;
  }
  return report.result.best.empty() ? static_cast<int>(ErrorKind::infeasible) : 0;
}

int merge(const Arguments& arguments, Console& console) {
  check_output(arguments);
  check_html(arguments);
  std::vector<std::pair<std::string, std::string>> texts;
  for (const std::string& file : arguments.all("PART")) texts.emplace_back(file, read_text(file));
  if (texts.front().second.find(kSweepSchema) < 64) {
    const Document document = merged_sweep(texts);
    print(document, arguments, console);
    write_html("sweep", document, arguments, console);
    return 0;
  }
  std::vector<NamedPart> parts;
  for (const auto& [file, text] : texts) parts.push_back({file, read_search_part(text, file)});
  return merge_searches(std::move(parts), arguments, console);
}

}  // namespace

Verb merge_verb() {
  Verb verb{
      "merge",
      "Join the parts of a search or sweep that ran with --shard.",
      {"rehearse merge part1.json part2.json part3.json part4.json"},
      {{"PART", "JSON that 'rehearse search --shard' or 'rehearse sweep --shard' wrote", true, true}},
      {{"--simulate", "N", "most plans of a search to play; 0: closed form only", "32,768 over the GPUs, 4 to 512"},
       backend_option()},
      "Parts must be of one search or sweep, each there once. The plans come out as one search would have found them; "
      "the best of all parts are played here.",
      merge};
  for (Option& o : result_options())
    if (o.name != "--set") verb.options.push_back(std::move(o));
  verb.options.push_back(html_option());
  return verb;
}

}  // namespace rehearse::cli
