#pragma once
// Steps of a run, measured task by task, for comparison with the same steps simulated.

#include <functional>
#include <vector>

#include "gpu_backend/execute/executor.hpp"
#include "gpu_backend/execute/plan.hpp"
#include "gpu_backend/train/training.hpp"

namespace rehearse {

/// One rank's tasks in all the steps that count.
struct RankSteps {
  /// By step, by instruction of the rank's plan; zero at the step's beginning on the first rank.
  std::vector<std::vector<Interval>> steps;
};

struct MeasuredSteps {
  std::vector<double> seconds;  ///< Of the steps that count, on rank 0.
  StepTimes times;
  std::size_t median_step = 0;       ///< The one nearest to the median.
  std::string not_replayed_because;  ///< As Executor says, where replaying was asked for.
  std::vector<RankSteps> ranks;      ///< On rank 0; empty elsewhere.
};

struct StepCounts {
  int warm_up = 1;  ///< Steps that don't count; with `replay` at least 2.
  int steps = 10;   ///< Steps that do.
  /// Steps that count are replayed where that is possible (ExecutorOptions); those that are taken apart are issued.
  bool replay = false;
};
/// All ranks call it. `on_step` is called with the number of each step.
[[nodiscard]] MeasuredSteps measure_steps(const Program& program, ComputeDevice& device, Transport& transport,
                                          const DataSource& data, const StepCounts& counts,
                                          const std::function<void(int)>& on_step);

/// Where the time of one rank's step went: seconds per instruction that computes, and what lies between them.
struct StepShares {
  double compute = 0;  ///< Sum of the tasks that compute.
  double exposed = 0;  ///< Gaps between them in which communication was under way.
  double rest = 0;     ///< What is left of the step: dispatch, input, the loss.
};
[[nodiscard]] StepShares shares_of(const RankPlan& plan, const std::vector<Interval>& step, double seconds);

}  // namespace rehearse
