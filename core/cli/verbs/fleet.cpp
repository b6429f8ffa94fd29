#include <fmt/format.h>

#include "core/api/build_info.hpp"
#include "core/api/fleet.hpp"
#include "core/cli/backend_choice.hpp"
#include "core/cli/html_output.hpp"
#include "core/cli/output.hpp"
#include "core/cli/run/run_watch.hpp"
#include "core/cli/verbs.hpp"
#include "core/fleet/result.hpp"
#include "core/report/fleet/advice_report.hpp"
#include "core/report/fleet/fleet_report.hpp"
#include "core/report/fleet/timeline_data.hpp"

namespace rehearse::cli {

namespace {

fleet::FleetResult play(const fleet::Fleet& f, const std::string& doing, RunWatch& watch) {
  fleet::RunOptions options;
  options.progress = [&](double share) { watch.progress(doing, share, 1); };
  options.stop = watch.stop();
  return fleet::run_fleet(f, options);
}

std::string joined_words(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : ", ") + w;
  return out;
}

/// "research=2h" of --advise.
int run_advice(const Arguments& arguments, const fleet::Fleet& f, RunWatch& watch, Console& console) {
  const std::string wish = arguments.text("--advise");
  const std::size_t at = wish.rfind('=');
  if (at == std::string::npos || at == 0)
    throw Error(ErrorKind::usage, "wanted a queue and how long it may wait", "--advise " + wish,
                "for example --advise research=2h");
  fleet::RunOptions options;
  options.stop = watch.stop();
  options.progress = [&watch](double share) { watch.progress("trying changes, this one", share, 1); };
  const std::string queue = wish.substr(0, at);
  try {
    const Seconds bound = parse<Seconds>(wish.substr(at + 1));
    const fleet::AdviceAnswer answer = fleet::advise(f, queue, bound, options);
    watch.clear();
    print(advice_document(f, queue, bound, answer, rehearse_version()), arguments, console);
    const bool enough = answer.wait <= bound || (!answer.changes.empty() && answer.changes.front().enough);
    if (watch.stopped()) return kInterrupted;
    return enough ? 0 : static_cast<int>(ErrorKind::infeasible);
  } catch (Error& e) {
    if (e.where.empty()) e.where = "--advise " + wish;
    throw;
  }
}

int run_moment(const Arguments& arguments, const fleet::Fleet& f, const fleet::FleetResult& result, RunWatch& watch,
               Console& console) {
  TogetherOptions options;
  options.backend = chosen_backend(arguments, console);
  options.progress = [&watch](const RunProgress& now) { watch.progress(now); };
  Seconds at;
  try {
    at = parse<Seconds>(arguments.text("--moment"));
  } catch (Error& e) {
    e.where = "--moment " + arguments.text("--moment");
    throw;
  }
  const TogetherReport report = play_moment(f, result, at, options);
  watch.clear();
  print(together_document(report), arguments, console);
  return 0;
}

int fleet_verb_run(const Arguments& arguments, Console& console) {
  check_output(arguments);
  check_html(arguments);
  const std::string file = arguments.text("FLEET");
  const std::vector<std::string> set = arguments.all("--set"), against = arguments.all("--against");
  std::vector<std::string> other = set;
  other.insert(other.end(), against.begin(), against.end());
  // Read and checked before anything is played.
  RunWatch watch(console);
  FleetOptions opening;
  opening.progress = [&watch](double share) {
    watch.check();
    watch.progress("working out durations", share, 1);
  };
  std::vector<fleet::Fleet> fleets{open_fleet(file, set, opening)};
  if (!against.empty()) fleets.push_back(open_fleet(file, other, opening));
  watch.clear();
  for (const fleet::Fleet& f : fleets) fleet::check_fleet(f);
  if (arguments.has("--advise")) return run_advice(arguments, fleets.back(), watch, console);
  std::vector<fleet::FleetResult> results;
  for (const fleet::Fleet& f : fleets) results.push_back(play(f, fmt::format("{} jobs", f.jobs.size()), watch));
  watch.clear();
  if (arguments.has("--moment")) return run_moment(arguments, fleets.back(), results.back(), watch, console);
  std::vector<PlayedFleet> played{{"as stated", &fleets[0], &results[0]}};
  if (!against.empty()) played.push_back({joined_words(against), &fleets[1], &results[1]});
  const Document document = fleet_document(played, rehearse_version());
  print(document, arguments, console);
  write_html("fleet", document, arguments, console, [&] { return HtmlParts{{"timelines", timelines_json(played)}}; });
  if (!watch.stopped()) return 0;
  console.err << "interrupted: the answer is what was played until then\n";
  return kInterrupted;
}

}  // namespace

Verb fleet_verb() {
  Verb verb{
      "fleet",
      "Who waits for whom on a shared cluster, and what another policy or quota would change.",
      {"rehearse fleet scenarios/fleets/two_teams.json",
       "rehearse fleet scenarios/fleets/two_teams.json --against policy.quota=borrowing",
       "rehearse fleet scenarios/fleets/two_teams.json --html fleet.html"},
      {{"FLEET", "file of a cluster, its queues, its policy and its jobs (rehearse/fleet/v1: core/fleet/README.md)"}},
      result_options(),
      "Plays the jobs event by event under a policy of four parts: order, rule, quota and placement. Says where "
      "all GPU-hours went, what each queue held against what it is guaranteed, and who waited longest and for "
      "what. Jobs may name a scenario: how long they take is then estimated for whatever GPUs they get. --format csv "
      "has "
      "a row for each job. Exit code 3 where a job can never run, or where --advise finds no "
      "change that is enough.",
      fleet_verb_run};
  verb.options.push_back(html_option());
  verb.options.push_back(
      {"--moment", "TIME", "the jobs with scenarios that run then, played together on the links that they share"});
  verb.options.push_back(
      {"--against", "KEY=VALUE", "a second fleet with this changed as well, side by side", "", true});
  verb.options.push_back({"--advise", "QUEUE=TIME",
                          "the smallest change (policy, guarantee, nodes) after which 90 % of the queue's jobs wait no "
                          "longer than TIME"});
  return verb;
}

}  // namespace rehearse::cli
