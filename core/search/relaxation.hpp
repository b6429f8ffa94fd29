#pragma once
// Least step time and memory of a plan that shards, moves, gathers or has unequal stages: those of a plain sibling without any of it.
//
// Let r be the step of the plan with whole parameters, gradients and optimizer state on every replica, nothing on the host and gradients reduced
// after the last pass, by the closed form; d what its slowest stage waits for data parallelism and u its update. Then, with margins,
//
//   step >= r - d - u                               sharding, prefetch and copies to the host only add to passes and bubble
//   step >= m g t(g)                                g gathers or scatters of a stage's parameters per microbatch, each t (collective model)
//   memory >= 1.08 (states, divided as the plan divides them, + activations that stay on the device) + framework
//
// This holds for steps that hand work to the next, too: the stage that begins a step is the last to end one, so that a step's fill is not hidden by
// the drain of the one before.
//
// Where v p chunks have unequal numbers of layers, there are two siblings: all chunks as long as the shortest, of c layers, and as the longest.
// They differ by m v + p - 1 layers on the longest path, or more where the schedule's bubble is longer: which gives the time t of a layer's forward
// and backward for one of m microbatches. Then
//
//   step >= r' - d' - u' + m (e - v c) t            of the shorter sibling, whose slowest stage is an end of the pipeline, where embedding and loss
//                                                   are: e layers at the end that has fewer
//   step >= (m l + b) t                             the stage with most layers, l, passes m times and waits for b more to fill and drain the
//                                                   pipeline: the layers of all others once for 1F1B (Narayanan et al. 2021, section 2.2)
//
// and memory is scaled by the layers of the fullest stage. The inequalities are derived; the margins are chosen, and were never exceeded on the
// plans that test_core_search draws over whole spaces. Far nearer than bounds.hpp, for networks of equal layers in whole passes alone.

#include <map>
#include <mutex>
#include <tuple>

#include "core/search/bounds.hpp"

namespace rehearse {

/// The closed form agrees with the analytic back end to a hundredth (test_core_estimate), and so does that of the sibling.
inline constexpr double kRelaxedMargin = 0.98;
/// Parameters that stay whole (small ones, those outside the layers) are not told apart.
inline constexpr double kTrafficMargin = 0.8;

/// The plan without what is relaxed. Plans that agree in it share their Relaxed.
[[nodiscard]] StrategySettings relaxed_settings(const StrategySettings& settings);

struct Relaxed {
  bool known = false;      ///< False: outside the closed form, or refused.
  Seconds step_time;       ///< r - d - u, less what is said of unequal chunks.
  Bytes weights, gradients, optimizer, activations;  ///< Of the fullest stage.
};

/// `settings` as relaxed_settings() gives them. Never throws Error.
[[nodiscard]] Relaxed relaxed(QuickEvaluator& quick, const SearchProblem& problem, const StrategySettings& settings);

/// What gathers over the first stage's first group of shards take, rounded down to a few sizes per doubling; for many threads.
class GatherTimes {
 public:
  explicit GatherTimes(const SearchProblem& problem) : problem_(problem) {}
  [[nodiscard]] const SearchProblem& problem() const { return problem_; }
  /// One gather of all of `bytes`; 0 where shards do not lie evenly.
  [[nodiscard]] Seconds at_least(const StrategySettings& settings, Bytes bytes);

 private:
  static constexpr double kStepsPerDoubling = 8;
  const SearchProblem& problem_;
  std::mutex mutex_;
  std::map<std::tuple<int, int, int>, Seconds> known_;  ///< By shards, distance between them and size.
};

/// Of a plan whose relaxation is known.
[[nodiscard]] Bound bound(const Relaxed& relaxed, GatherTimes& gathers, const StrategySettings& settings);

}  // namespace rehearse
