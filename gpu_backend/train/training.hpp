#pragma once
// A run of many steps on one rank: checkpoints, resuming, and what is said about each step and about all of them.

#include <functional>
#include <string>
#include <vector>

#include "core/trace/trace.hpp"
#include "gpu_backend/execute/executor.hpp"
#include "gpu_backend/train/checkpoint.hpp"
#include "gpu_backend/train/weights.hpp"

namespace rehearse {

struct TrainingRun {
  std::int64_t steps = 10;                ///< Last step's number plus one: a resumed run does what is missing.
  std::string checkpoints;                ///< Folder; empty: none are written.
  std::int64_t save_every = 0;            ///< Steps between checkpoints; 0: after the last step only.
  bool resume = false;                    ///< Go on from the newest complete checkpoint, of whichever plan of this run.
  std::string init;                       ///< File of weights to begin with (weights.hpp); empty: drawn ones.
  std::string save_weights;               ///< File of weights to leave; empty: none.
  std::vector<WeightNames> weight_names;  ///< Schemes of names that files of weights may have.
  /// Gather the spans of the last step of all ranks on rank 0. That step is issued task by task: a replay has no times
  /// of tasks.
  bool trace = false;
  bool replay = false;                               ///< Replay steps where that is possible (ExecutorOptions).
  std::function<void(const GivenWeights&)> on_init;  ///< Called on every rank that has taken up given weights.
  std::function<void(const Resumed&)> on_resume;     ///< Called on every rank that has taken up a checkpoint.
  std::function<void(const StepResult&)> on_step;    ///< Called on every rank after each step.
};

/// Median and spread of step times, without the first, which also warms up.
struct StepTimes {
  double median = 0, p5 = 0, p95 = 0;
  std::int64_t counted = 0;
};
[[nodiscard]] StepTimes summarise(std::vector<double> seconds);

struct TrainingSummary {
  Resumed resumed;  ///< At step 0 where nothing was taken up.
  StepTimes times;
  StepResult last;
  std::vector<double> losses;        ///< Of the steps that were done.
  std::vector<Span> spans;           ///< On rank 0 of a traced run.
  std::int64_t replayed = 0;         ///< Steps.
  std::string not_replayed_because;  ///< As Executor says.
  std::string init_names;            ///< Scheme of the names in the file of weights that was taken up; empty: none was.
  std::string saved_names;           ///< And in the one that was left.
};

/// Runs it; all ranks call it.
TrainingSummary train(const Program& program, ComputeDevice& device, Transport& transport, const DataSource& data,
                      const TrainingRun& run);

}  // namespace rehearse
