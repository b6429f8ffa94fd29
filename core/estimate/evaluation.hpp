#pragma once
// One plan's answer: does it fit, how long is a step, where does the time go. Memory comes first: a plan that does not
// fit gets no times.

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/cluster/cluster.hpp"
#include "core/config/settings/forward.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/estimate/quick/quick_estimate.hpp"
#include "core/play/backend.hpp"
#include "core/price/cost_model.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse {

/// What a search is about. Refers to things that must outlive it; all of them may be read from several threads.
struct SearchProblem {
  const Workload& workload;
  const Cluster& cluster;
  const CostModel& cost;
  StrategySettings own;  ///< The scenario's strategy.
  int devices = 0;       ///< On which plans are spread.
  /// From settings to a Program; throws Error where they are refused.
  std::function<Program(const StrategySettings&)> lower;
  /// Settings as the scenario's framework runs them, which lower() applies by itself; empty: as they are.
  std::function<StrategySettings(const StrategySettings&)> as_run{};
  /// Whether the framework trains `workload` under them; empty: it does. lower() knows what it trains else.
  std::function<bool(const StrategySettings&)> trains_workload{};

  [[nodiscard]] StrategySettings run(const StrategySettings& settings) const {
    return as_run ? as_run(settings) : settings;
  }
};

struct Evaluation {
  std::string refusal;  ///< Why no Program came out of it; nothing else means anything then.
  bool defect = false;  ///< The refusal is a failure of this program, not of the plan.
  bool fits = false;
  Bytes needed;                   ///< Of the stage nearest to its capacity.
  Bytes capacity;                 ///< Of that stage's device, or the limit that the user gave where that is less.
  Seconds step_time;              ///< Closed form; 0 where it does not fit.
  Breakdown breakdown;            ///< Of the slowest stage; adds up to `step_time`.
  std::optional<Seconds> played;  ///< What a back end said.
  std::optional<Breakdown> played_breakdown;
  Bytes allocated{};  ///< What tensors and workspace hold of `needed`.
  /// The best that is known of the step.
  [[nodiscard]] Seconds time() const { return played.value_or(step_time); }
  [[nodiscard]] const Breakdown& parts() const { return played_breakdown ? *played_breakdown : breakdown; }
};

/// Steps to play or estimate for a period in the steady state: more than one where a step hands work to the next.
[[nodiscard]] int steps_in_period(const StrategySettings& settings, const InputSettings& input);

/// Closed form. `most` limits device memory where it is above zero. Balances unequal machines first where the settings
/// say so.
[[nodiscard]] Evaluation evaluate(const SearchProblem& problem, const StrategySettings& settings, Bytes most = {});

/// Closed forms of many plans without lowering each. Not to be shared between threads; answers do not depend on those
/// given before.
class QuickEvaluator {
 public:
  /// `tables` as QuickEstimator shares them.
  QuickEvaluator(const SearchProblem& problem, Bytes most, const std::shared_ptr<QuickTables>& tables = quick_tables());
  /// As evaluate(), but for plans that do not fit the step time stands, too. Nothing for plans outside the closed form
  /// (QuickEstimator).
  std::optional<Evaluation> operator()(const StrategySettings& settings);
  /// One step on its own, whatever the settings hand on to the next, of the network with `layers` layers. Throws Error
  /// where they are refused.
  std::optional<QuickEstimate> alone(const StrategySettings& settings, int layers) {
    return trained(settings) ? alone_.closed_form(problem_.run(settings), layers) : std::nullopt;
  }

 private:
  [[nodiscard]] bool trained(const StrategySettings& settings) const {
    return !problem_.trains_workload || problem_.trains_workload(settings);
  }

  const SearchProblem& problem_;
  Bytes most_;
  QuickEstimator alone_, following_;
};

/// As many evaluators as threads ask for at once, kept with what they have worked out.
class QuickEvaluators {
 public:
  QuickEvaluators(const SearchProblem& problem, Bytes most) : problem_(problem), most_(most), tables_(quick_tables()) {}
  /// Calls work(QuickEvaluator&) with one that no other thread has meanwhile.
  template <class Work>
  void with(const Work& work) {
    std::unique_ptr<QuickEvaluator> mine = take();
    work(*mine);
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(mine));
  }

 private:
  std::unique_ptr<QuickEvaluator> take();
  const SearchProblem& problem_;
  Bytes most_;
  std::shared_ptr<QuickTables> tables_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<QuickEvaluator>> free_;
};

/// Adds what the back end of that name says of a plan that fits. A result that breaks physics becomes a refusal. Adds
/// nothing where `stop` turns true meanwhile; it may be empty.
void play(const SearchProblem& problem, const StrategySettings& settings, const std::string& backend,
          Evaluation& evaluation, const std::function<bool()>& stop = {});

}  // namespace rehearse
