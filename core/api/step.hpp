#pragma once
// How long a training step takes, where the time goes and whether the plan fits: in closed form, or played.
//
//   const auto scenario = rehearse::load_scenario("scenarios/llama3_8b_h100_8.json", {"strategy.tp=2"});
//   const rehearse::StepReport step = rehearse::simulate(scenario);
//   if (step.memory.fits()) fmt::print("{}\n", to_string(step.metrics.step_time));

#include <cstddef>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "core/report/results/step_report.hpp"

namespace rehearse {

struct Scenario;
struct Session;

struct EstimateOptions {
  /// Folder that holds topologies/ and scenarios/. Default: empty, which searches as find_data() says
  /// (core/api/data_directory.hpp); with a folder, no variable is read and no other path is tried.
  std::filesystem::path data{};
  /// As MemoryOptions::suggest. Default: yes.
  bool suggest = true;
  /// Whether a plan that does not fit has times all the same. Default: no.
  bool despite_memory = false;
  /// Files of steps that the user measured, as observe() reads them (core/api/session/observed.hpp): they shift and
  /// narrow the likely range. Default: none.
  std::vector<std::string> observed{};
};

/// The step in closed form: the schedule's recurrence over priced blocks, without contention for links. The answer has
/// no trace and one rank for each stage. Where the plan does not fit (`memory.fits()` is false) there are no times
/// unless despite_memory, and metrics are zero. Throws Error (usage) where the scenario names what there is not, or its
/// axes, sizes or schedule do not work out.
[[nodiscard]] StepReport estimate(const Scenario& scenario, const EstimateOptions& options = {});
/// The same of a session (core/api/session/session.hpp) and its Program.
[[nodiscard]] StepReport estimate(const Session& session, const Program& program, const EstimateOptions& options = {});

struct SimulateOptions {
  /// As EstimateOptions::data.
  std::filesystem::path data{};
  /// What plays the step: a registered back end. Default: empty, which takes "simgrid" where the program is linked with
  /// it, else "analytic", which sees no contention on shared links.
  std::string backend{};
  /// Whether ranks that are proved to do the same at the same times are played as one. Default: yes.
  bool fold = true;
  /// Whether collectives on wires of their own are played as flows, too, task by task. Default: no, they are timers;
  /// yes where what_if changes links, which would not show otherwise.
  bool all_flows = false;
  /// Whether a plan that does not fit is played all the same, to be held against a job that ran. Default: no.
  bool despite_memory = false;
  /// What goes wrong: "link=NAME:0.5" (rate of links, '*' for anything), "straggler=RANK:1.2" (time of a rank's
  /// kernels), "fail=nic:NODE/NIC". Factors are above 0 and up to 1e6, those of stragglers from 1 on. Default: nothing.
  std::vector<std::string> what_if{};
  /// As EstimateOptions::observed. Default: none.
  std::vector<std::string> observed{};
  /// As MemoryOptions::suggest. Default: yes.
  bool suggest = true;
  /// Kinds of ranks that the picture shows, one rank of each; the trace holds their spans. Default: 16, the most that a
  /// page has room for. 0 with an empty `traced`: no spans are kept.
  std::size_t pictured = 16;
  /// Further ranks whose spans the trace keeps. Default: none.
  std::set<int> traced{};
  /// Called every few thousand operations; what it throws ends the run and is thrown on. Default: nothing is called.
  std::function<void(const RunProgress&)> progress{};
};

/// The step as a back end plays it, with the trace of the ranks that were asked for. Where the plan does not fit
/// (`memory.fits()` is false) nothing is played unless despite_memory, there is no trace and metrics are zero. The same
/// scenario gives the same bytes on any machine. Throws Error: usage as estimate(), and for changes that cannot be
/// made; unavailable for a back end that is not built in; check_failed where the result breaks physics.
[[nodiscard]] StepReport simulate(const Scenario& scenario, const SimulateOptions& options = {});
/// The same of a session (core/api/session/session.hpp) and its Program; `data`, `what_if` and `observed` are the
/// session's own.
[[nodiscard]] StepReport simulate(const Session& session, const Program& program, const SimulateOptions& options = {});

/// Blocks for people, records for spreadsheets, JSON (rehearse/result/v1) for programs. Where it has no
/// times, those of its memory.
[[nodiscard]] Document to_document(const StepReport& report);
/// The JSON alone; ends in a newline.
[[nodiscard]] std::string to_json(const StepReport& report);

}  // namespace rehearse
