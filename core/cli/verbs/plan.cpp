#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <numeric>

#include <fmt/format.h>

#include "core/api/build_info.hpp"
#include "core/api/data_directory.hpp"
#include "core/api/session/exported.hpp"
#include "core/api/session/observed.hpp"
#include "core/api/session/scenario_cluster.hpp"
#include "core/api/session/session.hpp"
#include "core/base/index.hpp"
#include "core/base/worker_threads.hpp"
#include "core/cli/backend_choice.hpp"
#include "core/cli/html_output.hpp"
#include "core/cli/output.hpp"
#include "core/cli/run/run_watch.hpp"
#include "core/cli/verbs.hpp"
#include "core/cli/verbs/search_setup.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/import/traces/read_trace.hpp"
#include "core/plan/plan_scenario.hpp"
#include "core/plan/rank.hpp"
#include "core/plan/step_search.hpp"
#include "core/report/plan/plan_report.hpp"
#include "core/report/results/range_words.hpp"
#include "core/scoreboard/prediction_range.hpp"
#include "core/scoreboard/ranges/error_groups.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse::cli {

namespace {

/// The plan's job on machines of one candidate, or on its set as it is.
Scenario scenario_of(const Plan& plan, const PlanCandidate& candidate, int machines) {
  Scenario scenario = plan.base;
  scenario.cluster = {};
  if (candidate.cluster.empty())
    scenario.cluster.parts = {{candidate.machine, machines}};
  else
    (is_file_reference(candidate.cluster) ? scenario.cluster.file : scenario.cluster.name) = candidate.cluster;
  scenario.cluster.network = candidate.network;
  return scenario;
}

/// Errors about names stand at the candidate.
Cluster cluster_of(const Catalogue& catalogue, const Plan& plan, const PlanCandidate& candidate, int machines) {
  Scenario scenario = scenario_of(plan, candidate, machines);
  scenario.origin.clear();
  try {
    return scenario_cluster(catalogue, scenario);
  } catch (Error& e) {
    if (e.where.starts_with(": /cluster"))
      e.where = candidate.where + e.where.substr(std::string_view(": /cluster").size());
    throw;
  }
}

/// What one candidate trains, and how.
struct CandidateJob {
  std::shared_ptr<const Session> session;  ///< On one of its machines.
  std::shared_ptr<const StepQuestion> question;
};

CandidateJob job_of(const Catalogue& catalogue, const Plan& plan, const PlanCandidate& candidate) {
  (void)cluster_of(catalogue, plan, candidate, 1);  // For its errors.
  const auto session =
      std::make_shared<const Session>(open_session(scenario_of(plan, candidate, 1), {.resolved = false}));
  const Workload& w = session->workload;
  if (!w.network.sequences)
    throw Error(ErrorKind::usage,
                fmt::format("'{}' is no model of sequences: its run has no number of tokens", w.network.name),
                plan.origin + ": /model");
  StepQuestion question{w, plan.base.strategy, plan.fixed, plan.batch_tolerance};
  if (session->plans)
    question.software = {[session](const StrategySettings& s) { return session->as_run(s); },
                         [session](const StrategySettings& s) { return session->other_workload(s); },
                         [session](const StrategySettings& s) { return lacking(*session->framework, s).empty(); }};
  return {session, std::make_shared<const StepQuestion>(std::move(question))};
}

/// "8 of 10 steps take 0.72 to 1.38 times the time given, by 90 rows of 4 sources, ...; ...".
std::string words_of_range(const PredictionRange& r) {
  std::string out = fmt::format("8 of 10 steps take {:.2f} to {:.2f} times the time given, by {}", r.p10 / r.middle,
                                r.p90 / r.middle, rests_on(r));
  if (std::abs(r.middle - 1) >= 0.005)
    out += fmt::format("; they took {:.2f} times as long as modelled, which is applied", r.middle);
  if (r.own_rows > 0)
    out += fmt::format("; {} steps of your own made that of {:.2f} to {:.2f} times, and {:.2f} times as modelled",
                       r.own_rows, r.p10_before / r.middle_before, r.p90_before / r.middle_before, r.middle_before);
  return out;
}

/// Measured, but for what the plan states itself: then nothing is known to be biased.
StepRange range_of(const Plan& plan, const PredictionRanges& measured, const PredictionKind& kind) {
  const PredictionRange found = measured.range(kind);
  StepRange out{found.p10 / found.middle, found.p90 / found.middle, words_of_range(found), found.middle};
  if (!plan.range_low && !plan.range_high) return out;
  out.low = found.p10, out.high = found.p90, out.middle = 1;
  const bool both = plan.range_low && plan.range_high;
  out.source = both ? "the plan's own range of step times" : "the plan's own end of a measured range: " + out.source;
  out.low = plan.range_low.value_or(std::min(out.low, plan.range_high.value_or(out.low)));
  out.high = plan.range_high.value_or(std::max(out.high, out.low));
  return out;
}

ReliabilityProfile profile_of(const DataDirectory& data, const Plan& plan, const PlanCandidate& candidate,
                              const std::string& generation) {
  const std::filesystem::path folder = data.topologies() / "reliability";
  const bool own = !candidate.reliability.empty();
  if (!own && plan.reliability.profile.empty()) return load_reliability(folder, generation);
  try {
    return named_reliability(folder, own ? candidate.reliability : plan.reliability.profile);
  } catch (Error& e) {
    if (e.where.empty()) e.where = own ? candidate.where + "/reliability" : plan.origin + ": /reliability/profile";
    throw;
  }
}

/// Of all machines together, with the plan's own times in place of a profile's.
ReliabilityProfile reliability_of(const DataDirectory& data, const Plan& plan, const PlanCandidate& candidate,
                                  const Cluster& cluster) {
  std::vector<FleetPart> fleet;
  for (const Cluster::Part& part : cluster.parts()) {
    const double nodes = part.nodes;
    fleet.push_back({profile_of(data, plan, candidate, part.gpu->generation),
                     {nodes * part.machine->gpus, nodes * part.machine->nics, nodes * part.machine->trays}});
  }
  ReliabilityProfile out = joined_reliability(fleet);
  out.times = times_of(plan.reliability, out);
  return out;
}

MachinePrice price_of(const DataDirectory& data, const PlanCandidate& candidate, const Cluster& cluster) {
  std::vector<PricedMachines> parts;
  for (const Cluster::Part& part : cluster.parts()) {
    const double nodes = part.nodes;
    parts.push_back({load_price(data.topologies() / "prices", part.machine->id), nodes, nodes * part.machine->gpus});
  }
  MachinePrice own = candidate.price;
  if (!candidate.cluster.empty())  // The plan prices the set, costs count machines.
    for (std::optional<Dollars>* figure : {&own.purchase, &own.network})
      if (*figure) *figure = **figure / cluster.node_count();
  if (!candidate.cluster.empty() && own.power) own.power = *own.power / cluster.node_count();
  return overridden(mean_price(parts), own);
}

/// Steps with the known bias of such predictions applied: candidates on GPUs of different generations have different
/// ones.
class BiasedSearch : public StepSearch {
 public:
  BiasedSearch(std::unique_ptr<StepSearch> modelled, double middle) : modelled_(std::move(modelled)), middle_(middle) {}

  StepAnswer best(int machines, bool thorough) override {
    StepAnswer out = modelled_->best(machines, thorough);
    if (out.choice) bias(*out.choice, middle_);
    for (StepChoice& other : out.others) bias(other, middle_);
    return out;
  }

  std::optional<StepChoice> played(int machines, const StepAnswer& answer) override {
    StepAnswer modelled = answer;
    if (modelled.choice) bias(*modelled.choice, 1 / middle_);
    for (StepChoice& other : modelled.others) bias(other, 1 / middle_);
    std::optional<StepChoice> out = modelled_->played(machines, modelled);
    if (out) bias(*out, middle_);
    return out;
  }

 private:
  static void bias(StepChoice& choice, double middle) {
    choice.step_time = choice.step_time * middle;
    choice.closed_form = choice.closed_form * middle;
    choice.mfu /= middle;
  }

  std::unique_ptr<StepSearch> modelled_;
  double middle_;
};

CandidateSite site_of(const DataDirectory& data, const Catalogue& catalogue, const Plan& plan,
                      const PlanCandidate& candidate, const PredictionRanges& measured, const CandidateJob& job,
                      const std::string& backend, const std::function<bool()>& stop) {
  const Cluster one = cluster_of(catalogue, plan, candidate, 1);
  const bool as_it_is = !candidate.cluster.empty();
  CandidateSite out;
  out.candidate = candidate;
  out.facts = machine_facts(one, plan.base.training.precision, as_it_is);
  out.price = price_of(data, candidate, one);
  if (out.price.power) out.facts.rated = *out.price.power;
  out.rented = is_rented(candidate, out.price);
  out.reliability = reliability_of(data, plan, candidate, one);
  const Workload& w = job.question->workload;
  const PredictionKind kind = kind_of(w.network, one, framework_name(plan.base.framework.name));
  const StepRange range = range_of(plan, measured, kind);
  out.peak = peak_range_in(measured, kind);
  out.range = [range](const StrategySettings&) { return range; };
  out.tokens_per_sequence = static_cast<double>(w.training.sequence_length);
  out.flops_per_token = model_flops(w.network, 1, w.training.sequence_length) / out.tokens_per_sequence;
  std::unique_ptr<StepSearch> modelled = make_step_search(
      job.question,
      [&catalogue, &plan, candidate](int machines) { return cluster_of(catalogue, plan, candidate, machines); },
      [session = job.session](const Cluster& cluster) { return session->profiles(cluster); }, backend, stop);
  out.search = std::make_unique<BiasedSearch>(std::move(modelled), range.middle);
  out.stop = stop;
  return out;
}

CandidateAnswer answer_one(const DataDirectory& data, const Plan& plan, const PlanCandidate& candidate,
                           const PredictionRanges& measured, Bytes checkpoint, const CandidateJob& job,
                           const std::string& backend, const std::function<bool()>& stop,
                           std::function<void(double)> progress) {
  const Catalogue catalogue(data.topologies());  // One each: it is not to be shared between threads.
  CandidateSite site = site_of(data, catalogue, plan, candidate, measured, job, backend, stop);
  site.checkpoint = checkpoint;
  site.progress = std::move(progress);
  return answer_candidate(plan, site);
}

/// What all candidates together have done, from several threads.
class Progress {
 public:
  Progress(RunWatch& watch, std::size_t candidates) : watch_(watch), shares_(candidates) {}
  void tell(std::size_t candidate, double share) {
    const std::lock_guard lock(mutex_);
    shares_[candidate] = share;
    const auto count = static_cast<double>(shares_.size());
    watch_.progress(count == 1 ? "one candidate" : fmt::format("{} candidates", count),
                    std::accumulate(shares_.begin(), shares_.end(), 0.0), count);
  }

 private:
  RunWatch& watch_;
  std::mutex mutex_;
  std::vector<double> shares_;
};

/// The candidates in the plan's order, worked out by `threads` at once. Throws what the first of them throws.
std::vector<CandidateAnswer> answer_all(const DataDirectory& data, const Plan& plan, const PredictionRanges& measured,
                                        const std::vector<CandidateJob>& jobs, const std::string& backend, int threads,
                                        RunWatch& watch) {
  const Bytes checkpoint = checkpoint_bytes(jobs.front().question->workload);
  std::vector<CandidateAnswer> answers(plan.candidates.size());
  std::vector<std::exception_ptr> failed(plan.candidates.size());
  std::atomic<std::size_t> next = 0;
  Progress progress(watch, answers.size());
  const auto work = [&] {
    for (std::size_t i = next++; i < answers.size(); i = next++) {
      try {
        answers[i] = answer_one(data, plan, plan.candidates[i], measured, checkpoint, jobs[i], backend, watch.stop(),
                                [&progress, i](double share) { progress.tell(i, share); });
        progress.tell(i, 1);
      } catch (...) {
        failed[i] = std::current_exception();
      }
    }
  };
  {
    const WorkerThreads workers(threads - 1, work);
    work();
  }
  for (const std::exception_ptr& e : failed)
    if (e) std::rethrow_exception(e);
  return answers;
}

PredictionRanges ranges_of(const Arguments& arguments, const DataDirectory& data) {
  PredictionRanges out = PredictionRanges::load(data.prediction_errors());
  const std::vector<std::string> files = arguments.all("--observed");
  for (const std::string& file : files)
    if (is_trace(file))
      throw Error(ErrorKind::usage, "a trace does not say which job it is of", "--observed " + file,
                  "give rows of measurements, or give the trace to simulate with the scenario of its job");
  return files.empty() ? out : out.with_own(errors_of_rows(files, data));
}

/// Errors in what an option stands for name the option.
Plan plan_of(const Arguments& arguments) {
  std::vector<std::string> overrides = arguments.all("--set");
  const std::string odds = "odds=" + arguments.text("--odds");
  if (arguments.has("--odds")) overrides.push_back(odds);
  try {
    return load_plan(arguments.text("PLAN"), overrides);
  } catch (Error& e) {
    if (arguments.has("--odds") && e.where.starts_with("--set " + odds)) e.where = "--odds " + arguments.text("--odds");
    throw;
  }
}

/// Commands that play each candidate's size, and one that exports the first.
void add_lines(const Arguments& arguments, PlanAnswer& answer) {
  const std::string file = arguments.text("PLAN");
  const std::vector<std::string> changed = scenario_overrides(arguments.all("--set"));
  const auto overrides_of = [&](const CandidateAnswer& a) {
    std::vector<std::string> out = changed;
    for (std::string& o : point_overrides(answer.plan, a.candidate, *a.point)) out.push_back(std::move(o));
    return out;
  };
  std::vector<std::string> play{"simulate", file};
  if (arguments.has("--backend")) play.insert(play.end(), {"--backend", arguments.text("--backend")});
  for (CandidateAnswer& a : answer.ranked)
    if (a.point) a.play_line = command_line(play, overrides_of(a));
  if (!answer.ranked.front().point) return;
  const std::vector<std::string> overrides = overrides_of(answer.ranked.front());
  const Session session = open_session(file, overrides);
  const std::string target = target_that_takes(session, session.lowered());
  if (!target.empty()) answer.export_line = command_line({"export", file, "--to", target}, overrides);
}

int plan_verb_run(const Arguments& arguments, Console& console) {
  check_output(arguments);
  check_html(arguments);
  const DataDirectory data = find_data();
  const Plan plan = plan_of(arguments);
  const std::string backend = chosen_backend(arguments, console);
  const Catalogue catalogue(data.topologies());
  std::vector<CandidateJob> jobs;
  for (const PlanCandidate& candidate : plan.candidates) jobs.push_back(job_of(catalogue, plan, candidate));
  RunWatch watch(console);
  std::vector<CandidateAnswer> answers =
      answer_all(data, plan, ranges_of(arguments, data), jobs, backend, jobs_of(arguments), watch);
  watch.clear();
  const Network& network = jobs.front().question->workload.network;
  PlanAnswer answer =
      rank_candidates(plan, network.name, static_cast<double>(network.parameter_count()), std::move(answers));
  add_lines(arguments, answer);
  const Document document = plan_document(answer, rehearse_version());
  print(document, arguments, console);
  write_html("plan", document, arguments, console);
  if (answer.interrupted) {
    console.err << "interrupted: the answer is from the sizes that were tried until then\n";
    return kInterrupted;
  }
  const CandidateAnswer& first = answer.ranked.front();
  return first.point && first.meets_deadline && first.meets_budget ? 0 : static_cast<int>(ErrorKind::infeasible);
}

}  // namespace

Verb plan_verb() {
  Verb verb{
      "plan",
      "Which machine to buy or rent, and how many, to train a model by a date for an amount.",
      {"rehearse plan scenarios/plans/llama3_70b_60_days.json",
       "rehearse plan scenarios/plans/llama3_70b_60_days.json --set deadline_days=30 --set objective=energy"},
      {{"PLAN", "plan file (rehearse/plan/v1; 'rehearse explain plan' lists its keys)"}},
      result_options(),
      "For each candidate the best strategy, the number of machines that the objective chooses within deadline and "
      "budgets, days, cost and energy, failures counted. The size chosen is played at its size, and is in time at the "
      "slow end of its range; commands that play and export it stand below. Every verb that takes a scenario takes "
      "the file of a plan. Keys for --set: 'rehearse explain plan'. Ctrl-C ends the work and ranks what was found, "
      "with exit code 130. Exit code 3 where no candidate meets deadline and budget.",
      plan_verb_run};
  verb.options.push_back(observed_option("rows as 'validate --measurements' takes them"));
  verb.options.push_back(html_option());
  verb.options.push_back(
      {"--odds", "P", "how likely the size chosen is to be in time, 0.5 to 0.999: as --set odds=P", "the plan's, 0.9"});
  verb.options.push_back(backend_option());
  verb.options.push_back({"-j,--jobs", "N", "candidates worked out at once; the answer is the same for any number",
                          "as many as there are cores"});
  return verb;
}

}  // namespace rehearse::cli
