#pragma once
// The other end of the seam: a clock that plays a Program on a model of a cluster, and reports a Trace. Clocks register
// by name ("analytic" here, "simgrid" in sim) and are chosen at run time.
//
// Executing a Program on devices (gpu_backend/execute/executor.hpp) is no Backend, and shares just two things with one:
// it takes the same Program, made by the same lower(), and it reports the same spans (core/trace/trace.hpp), so that
// every report draws and compares both. What a Backend is given beside these, an execution has not: it needs no model
// of a cluster and no prices, it runs in one process a rank, and it keeps its state (parameters, moments) from one step
// to the next.

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/registry.hpp"
#include "core/price/cost_model.hpp"
#include "core/program/program.hpp"
#include "core/trace/trace.hpp"

namespace rehearse {

/// How far a run is.
struct RunProgress {
  std::int64_t done = 0, all = 0;  ///< Operations.
  Seconds simulated;
};

struct RunOptions {
  int steps = 1;  ///< Steps to play; step time is that of the last.
  /// Ranks that are proved to do the same at the same times may be played as one (player/alike.hpp).
  bool fold = true;
  /// With `fold`: whatever ranks are alike, and not the lanes of tensor-parallel groups only.
  bool fold_alike = true;
  /// Collectives on wires of their own move as flows, too, and bodies are played task by task.
  bool all_flows = false;
  bool task_spans = false;  ///< Spans of single tasks inside bodies, too.
  /// Called every few thousand operations, from within run(); what it throws ends the run and is thrown on.
  std::function<void(const RunProgress&)> progress;
};

/// One breach of physics found in a result.
struct Breach {
  std::string rule;
  std::string detail;
};

struct RunResult {
  std::string backend;
  Seconds step_time;
  std::vector<Seconds> step_times;  ///< Of all steps played, from the end of one to the end of the next.
  /// Of the measured step, on the clock of its spans: 0 unless steps before it were played.
  Seconds begin;
  std::vector<RankMetrics> ranks;  ///< One per played stream of ranks (its first rank).
  int slowest = 0;                 ///< Index into `ranks`.
  bool folded = false;
  std::string folding;                 ///< What was folded, and by which argument.
  std::int64_t tasks = 0, timers = 0;  ///< In all steps played.
  /// Likewise, of collectives and messages; those that were played as one count once.
  std::int64_t flows = 0;
  std::vector<Breach> breaches;
  /// Busiest links: name, utilisation 0..1, bytes per step. Where several steps were played, the mean of all.
  struct LinkLoad {
    std::string name;
    double utilisation;
    Bytes bytes;
  };
  std::vector<LinkLoad> busiest_links;
  /// By LinkId: of flows, per step (the mean of all steps played). Empty where the back end has no flows.
  std::vector<double> link_bytes;
  Seconds link_time;  ///< In which they passed: the mean time of those steps.
};

/// One of the Programs that are played at once, on devices of its own (Program::device_of_rank). `cost` is of a cluster
/// equal to the one that all are played on.
struct PlayedProgram {
  const Program& program;
  const CostModel& cost;
  const RunOptions& options;
  TraceSink& sink;
  Seconds begin{};  ///< When its first step begins, from 0 on. Spans and results are on a clock that starts there.
  /// Whether another one may cross a link that this one crosses. Then fewer ranks provably behave alike (README.md).
  bool meets_others = false;
};

class Backend {
 public:
  virtual ~Backend() = default;
  /// Plays all of them at once on one cluster, whose links they share; one result each, in their order. Throws Error
  /// (unavailable) where the back end cannot run here, and std::logic_error where a device has two ranks. Deterministic
  /// for simulated back ends.
  virtual std::vector<RunResult> run_together(const Cluster& cluster, std::span<const PlayedProgram> programs) = 0;
  /// One alone.
  RunResult run(const Program& program, const Cluster& cluster, const CostModel& cost, const RunOptions& options,
                TraceSink& sink);
};

using BackendFactory = std::function<std::unique_ptr<Backend>()>;
[[nodiscard]] Registry<BackendFactory>& backends();

}  // namespace rehearse
