#include "core/cli/run/validate_run.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include <fmt/format.h>

#include "core/api/session/step_answer.hpp"
#include "core/base/index.hpp"
#include "core/cli/backend_choice.hpp"
#include "core/cli/html_output.hpp"
#include "core/cli/max_error.hpp"
#include "core/cli/output.hpp"
#include "core/cli/run/run_rank.hpp"
#include "core/report/html/gantt_data.hpp"
#include "core/report/pictures/kineto_trace.hpp"
#include "core/report/results/validation_report.hpp"
#include "core/strategy/workload.hpp"
#include "gpu_backend/calibrate/machine_load.hpp"
#include "gpu_backend/calibrate/measured_steps.hpp"
#include "gpu_backend/execute/spans.hpp"

namespace rehearse::cli {

namespace {

constexpr int kWarmUp = 3;
constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// The scenario on this machine, as the profile describes it.
Session open_here(const Arguments& arguments, int ranks) {
  std::vector<std::string> sets = arguments.all("--set");
  if (arguments.has("--calibration")) {
    const std::string file = std::filesystem::absolute(arguments.text("--calibration")).string();
    sets.insert(sets.end(), {"cluster=" + file, "calibration=" + file});
  }
  Session session = open_session(arguments.text("SCENARIO"), sets, {.ranks = ranks});
  if (!session.profile)
    throw Error(
        ErrorKind::usage, "no profile of this machine", "--calibration",
        fmt::format(
            "rehearse calibrate --device {} --ranks {} -o this_machine.json, then --calibration this_machine.json",
            on_cuda(arguments) ? "cuda" : "cpu", ranks));
  if (const std::string wanted = on_cuda(arguments) ? "cuda" : "cpu"; session.profile->kind != wanted)
    throw Error(ErrorKind::usage,
                fmt::format("a profile of device '{}', for a run on '{}'", session.profile->kind, wanted),
                "--calibration", fmt::format("rehearse calibrate --device {} measures it", wanted));
  if (session.cluster.device_count() != ranks)
    throw Error(ErrorKind::usage,
                fmt::format("the scenario's cluster has {} devices, and {} ranks are to run",
                            session.cluster.device_count(), ranks),
                "cluster", "give the profile by --calibration");
  return session;
}

/// Either side of one operator class, summed over a rank's step.
struct Sums {
  double calls = 0, predicted = 0;
  std::vector<double> measured;
};

class Comparison {
 public:
  Comparison(const Session& session, const Program& executed, Numerics numerics, const MeasuredSteps& steps)
      : session_(session),
        priced_(numerics == Numerics::plan
                    ? executed
                    : with_real_type(executed, numerics == Numerics::fp64 ? DType::fp64 : DType::fp32)),
        cost_(session.cost_model()),
        steps_(steps) {
    priced_.device_of_rank.resize(steps.ranks.size());
    for (std::size_t r = 0; r < steps.ranks.size(); ++r) priced_.device_of_rank[r] = static_cast<int>(r);
  }

  Validation compare(const std::string& backend) {
    simulate(backend);
    for (std::size_t r = 0; r < steps_.ranks.size(); ++r) add_rank(static_cast<int>(r));
    Validation out;
    out.scenario = session_.workload.network.name;
    out.machine = session_.profile->name;
    out.backend = backend;
    out.ranks = static_cast<int>(steps_.ranks.size());
    out.steps = static_cast<int>(steps_.seconds.size());
    out.predicted = run_.step_time;
    out.measured = Seconds{steps_.times.median}, out.p5 = Seconds{steps_.times.p5}, out.p95 = Seconds{steps_.times.p95};
    out.not_calibrated.assign(missing_.begin(), missing_.end());
    add_rows(out);
    return out;
  }

  /// Simulated streams of every rank above measured ones.
  void write_trace(const std::string& file, Console& console) const {
    Program both = priced_;
    Trace trace(all_ranks());
    both.streams.clear();
    for (const char* side : {"simulated", "measured"})
      for (Stream s : priced_.streams) {
        s.name = fmt::format("{} {}", side, s.name);
        both.streams.push_back(std::move(s));
      }
    trace.streams = both.stream_names();
    trace.spans = simulated_->spans;
    for (Span& span : measured_spans()) {
      span.stream += static_cast<int>(priced_.streams.size());
      span.message = -1;
      trace.spans.push_back(std::move(span));
    }
    const auto out = open_output(file);
    write_kineto(trace, both, session_.cluster, priced_.name, *out);
    out->close();
    console.err << fmt::format("wrote {}: {} spans; open it at https://ui.perfetto.dev\n", file, trace.spans.size());
  }

  /// Each rank's step as simulated, and below it the measured one nearest to the median.
  HtmlParts pictures() const {
    Trace measured(all_ranks());
    measured.spans = measured_spans();
    std::vector<GanttSide> sides(2);
    const auto rows = [&](const char* side) {
      std::vector<GanttRow> out;
      for (const int r : all_ranks()) out.push_back({fmt::format("{} {}", side, r), r});
      return sampled(out, 8);
    };
    sides[0] = {simulated_.get(), rows("simulated"), run_.begin, run_.step_time};
    sides[1] = {&measured, rows("measured"), Seconds{0}, Seconds{steps_.seconds[steps_.median_step]}};
    return {{"gantt", gantt_json(sides)}};
  }

 private:
  [[nodiscard]] std::vector<Span> measured_spans() const {
    std::vector<Span> out;
    for (std::size_t r = 0; r < steps_.ranks.size(); ++r) {
      const RankPlan plan(priced_, static_cast<int>(r));
      for (std::size_t i = 0; i < plan.step().size(); ++i)
        out.push_back(span_of(plan, plan.step()[i], steps_.ranks[r].steps[steps_.median_step][i]));
    }
    return out;
  }

  [[nodiscard]] std::vector<int> all_ranks() const {
    std::vector<int> out;
    for (std::size_t r = 0; r < steps_.ranks.size(); ++r) out.push_back(static_cast<int>(r));
    return out;
  }

  void simulate(const std::string& backend) {
    simulated_ = std::make_shared<Trace>(all_ranks());
    simulated_->streams = priced_.stream_names();
    RunOptions options;
    options.steps = steps_to_play(session_);
    options.fold = false;
    options.task_spans = true;
    run_ = backends().at(backend).value()->run(priced_, session_.cluster, cost_, options, *simulated_);
  }

  void add_rank(int rank) {
    const RankPlan plan(priced_, rank);
    const RankSteps& measured = nth(steps_.ranks, rank);
    const MeasuredKernels kernels(*session_.profile, session_.cluster.device_count());
    for (std::size_t i = 0; i < plan.step().size(); ++i) {
      const Instruction& in = plan.step()[i];
      const auto* c = std::get_if<ComputeTask>(&in.task->kind);
      if (c == nullptr) continue;
      Sums& sums = classes_[measured_name(*c)];
      const auto time = kernels.time(sized_operations(priced_, *in.task, *in.body, in.at), c->arithmetic);
      if (!time) missing_.insert(measured_name(*c));
      sums.predicted += (time ? *time : cost_.price(priced_, *in.task, *in.body, rank, in.at).time).value();
      sums.calls += 1;
      sums.measured.resize(steps_.seconds.size(), 0.0);
      for (std::size_t s = 0; s < steps_.seconds.size(); ++s)
        sums.measured[s] += measured.steps[s][i].end - measured.steps[s][i].begin;
    }
    exposed_.resize(steps_.seconds.size(), 0.0);
    for (std::size_t s = 0; s < steps_.seconds.size(); ++s)
      exposed_[s] += shares_of(plan, measured.steps[s], steps_.seconds[s]).exposed;
  }

  void add_rows(Validation& out) const {
    const double ranks = out.ranks;
    Seconds predicted, measured;
    const auto add = [&](ValidationRow row) {
      predicted += row.predicted, measured += row.measured;
      out.rows.push_back(std::move(row));
    };
    for (const auto& [name, s] : classes_)
      add({name, s.calls / ranks, Seconds{s.predicted / ranks}, Seconds{median(s.measured) / ranks}, true});
    Breakdown mean;
    for (const RankMetrics& m : run_.ranks) mean += m.breakdown;
    mean *= 1.0 / static_cast<double>(run_.ranks.size());
    if (ranks > 1) {
      Seconds exposed = mean[TimeCategory::bubble];
      for (int c = static_cast<int>(TimeCategory::exposed_tp); c <= static_cast<int>(TimeCategory::exposed_tile); ++c)
        exposed += mean[static_cast<TimeCategory>(c)];
      add({"exposed communication", 0, exposed, Seconds{median(exposed_) / ranks}, false});
      add({"kernels slowed by communication", 0, mean[TimeCategory::overlap_slowdown], Seconds{0}, false});
    }
    add({"dispatch and the rest", 0, out.predicted - predicted, out.measured - measured, false});
  }

  [[nodiscard]] static double median(std::vector<double> x) {
    if (x.empty()) return 0;
    std::sort(x.begin(), x.end());
    return x.size() % 2 == 1 ? x[x.size() / 2] : (x[x.size() / 2 - 1] + x[x.size() / 2]) / 2;
  }

  const Session& session_;
  Program priced_;
  CostModel cost_;
  const MeasuredSteps& steps_;
  std::shared_ptr<Trace> simulated_;
  RunResult run_;
  std::map<std::string, Sums> classes_;
  std::vector<double> exposed_;
  std::set<std::string> missing_;
};

/// What a machine was busy with while steps were measured. All ranks make it and ask it.
class MachineLoad {
 public:
  struct Seen {
    std::optional<double> taken_by_others;
    Seconds work;  ///< Of MachinePace, mean of before and after; 0 where not measured.
  };
  /// Measures the pace.
  MachineLoad(ComputeDevice& device, Transport& transport)
      : transport_(transport), team_(device, transport, transport.ranks(), "pace"), before_(measure_pace(team_)) {}
  /// Measures it again. Not of devices that queue: what else their host does is not in the times of their work.
  [[nodiscard]] Seen seen() {
    const MachinePace after = measure_pace(team_);
    const std::optional<double> others = watch_.taken_by_others(transport_);
    if (before_.work == Seconds{0}) return {};
    return {others, (before_.work + after.work) * 0.5};
  }

 private:
  Transport& transport_;
  ProcessorWatch watch_;
  Team team_;
  MachinePace before_;
};

void tell_load(const MachineLoad::Seen& seen, const DeviceProfile& profile, Numerics numerics, Validation& out) {
  out.taken_by_others = seen.taken_by_others;
  const auto* setting = profile.find(out.ranks, numerics == Numerics::fp64 ? DType::fp64 : DType::fp32);
  if (setting == nullptr) return;
  out.profile_taken_by_others = setting->taken_by_others;
  if (setting->pace && seen.work > Seconds{0}) out.pace = seen.work / *setting->pace;
}

int validate_rank(Session& session, const Place& place, const Arguments& arguments, Console& console,
                  ComputeDevice& device, Transport& transport) {
  const Program program = executable_program(session, place.ranks);
  const auto data = data_of(session, arguments);
  const Numerics numerics = device.numerics();
  const int steps = static_cast<int>(arguments.whole("--steps", 1, 20));
  MachineLoad load(device, transport);
  const MeasuredSteps measured =
      measure_steps(program, device, transport, *data,
                    {.warm_up = kWarmUp, .steps = steps, .replay = session.scenario.kernels.cuda_graphs}, {});
  const MachineLoad::Seen seen = load.seen();
  if (place.rank != 0) return 0;
  if (!measured.not_replayed_because.empty()) {  // What is predicted is what ran.
    tell_not_replayed(measured.not_replayed_because, console);
    session.scenario.kernels.cuda_graphs = session.workload.kernels.cuda_graphs = false;
  }
  Comparison comparison(session, program, numerics, measured);
  Validation result = comparison.compare(chosen_backend(arguments, console));
  tell_load(seen, *session.profile, numerics, result);
  for (const std::string& doubt : doubts_of(result)) console.err << "note: " << doubt << "\n";
  const Document document = validation_document(result);
  print(document, arguments, console);
  if (arguments.has("--trace")) comparison.write_trace(arguments.text("--trace"), console);
  write_html("validate", document, arguments, console, [&] { return comparison.pictures(); });
  const double error = std::abs(relative_error(result.predicted, result.measured));
  if (error <= max_error(arguments).value_or(kNoLimit)) return 0;
  console.err << fmt::format("the step is {:.1f} % off\n", 100 * error);
  return static_cast<int>(ErrorKind::check_failed);
}

std::vector<std::string> rank_command_validate_run(const Arguments& arguments, int ranks) {
  std::vector<std::string> out{"rehearse",         "validate", arguments.text("SCENARIO"),
                               "--ranks-from-env", "--ranks",  std::to_string(ranks)};
  for (const char* option : {"--device", "--steps", "--data", "--numerics", "--calibration", "--backend", "--max-error",
                             "--trace", "--html", "--format", "--output"})
    if (arguments.has(option)) out.insert(out.end(), {option, arguments.text(option)});
  for (const std::string& set : arguments.all("--set")) out.insert(out.end(), {"--set", set});
  return out;
}

}  // namespace

int validate_run(const Arguments& arguments, Console& console) {
  check_output(arguments);
  check_html(arguments);
  check_device(arguments);
  (void)max_error(arguments);
  std::optional<Place> place;
  if (arguments.has("--ranks-from-env")) place = place_from(process_environment());
  const int ranks = place ? place->ranks : static_cast<int>(arguments.whole("--ranks", 1, 1));
  Session session = open_here(arguments, ranks);
  if (place || ranks == 1) {
    const Place here = place.value_or(Place{});
    return as_rank_on(here, arguments, console, [&](ComputeDevice& device, Transport& transport) {
      return validate_rank(session, here, arguments, console, device, transport);
    });
  }
  check_gpus(arguments, ranks);
  check_run(session, ranks, arguments);
  const Ended ended = run_ranks(ranks, rank_command_validate_run(arguments, ranks));
  if (!ended.cause.empty()) throw Error(ErrorKind::check_failed, ended.cause, "validate");
  return ended.exit_code;
}

std::vector<Option> validate_run_options() {
  return {
      {"--device", "NAME", "what runs: cpu or cuda", "cpu"},
      {"--ranks", "N", "ranks to run on this machine", "1"},
      {"--ranks-from-env", "", "be one of the ranks; for validate itself"},
      {"--calibration", "FILE", "profile of this machine (rehearse calibrate)", "the scenario's"},
      {"--steps", "N", "steps that are measured, after three that warm up", "20"},
      {"--data", "FILE", "learn the bytes or images of a file, as run does", "synthetic tokens or images"},
      {"--numerics", "TYPE", "arithmetic of all real numbers: fp32 or fp64; on GPUs also plan, as the scenario says",
       "fp32; plan on GPUs"},
      {"--trace", "FILE", "write simulated and measured spans of all ranks for Perfetto and PyTorch's tools"}};
}

}  // namespace rehearse::cli
