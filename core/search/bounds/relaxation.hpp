#pragma once
// Least step time and memory of a plan that shards, moves, gathers or has unequal stages: those of a plain sibling
// without any of it.
//
// Let r be the step of the plan with whole parameters, gradients and optimizer state on every replica, nothing on the
// host and gradients reduced after the last pass, by the closed form; d what its slowest stage waits for data
// parallelism and u its update. Then, with margins,
//
//   step >= r - d - u + m w + h     w: what each microbatch's passes wait for besides, h: update on CPU cores that no
//   pass hides (plan_traffic.hpp);
//                                   sharding, prefetch and copies only add to passes and bubble
//   step >= m g                     g: gathers of a stage's weights and scatters of its gradients per microbatch, one
//   after the other (collective model) memory >= 1.08 (states, as far as the plan keeps them, + activations that stay
//   on the device) + framework        (least_memory.hpp)
//
// This holds for steps that hand work to the next, too: the stage that begins a step is the last to end one, so that a
// step's fill is not hidden by the drain of the one before.
//
// Where v p chunks have unequal numbers of layers, there are two siblings: all chunks as long as the shortest, of c
// layers, and as the longest. They differ by m v + p - 1 layers on the longest path, or more where the schedule's
// bubble is longer: which gives the time t of a layer's forward and backward for one of m microbatches. Then
//
//   step >= r' - d' - u' + m (e - v c) t            of the shorter sibling, whose slowest stage is an end of the
//   pipeline, where embedding and loss
//                                                   are: e layers at the end that has fewer
//   step >= (m l + b) t                             the stage with most layers, l, passes m times and waits for b more
//   to fill and drain the
//                                                   pipeline: the layers of all others once for 1F1B (Narayanan et al.
//                                                   2021, section 2.2)
//
// and memory is scaled by the layers of the fullest stage. The inequalities are derived; the margins are chosen, and
// were never exceeded on the plans that test_core_search draws over whole spaces. Far nearer than bounds.hpp, for
// networks of equal layers in whole passes alone.

#include "core/search/bounds/bounds.hpp"
#include "core/search/bounds/least_memory.hpp"
#include "core/search/bounds/plan_traffic.hpp"

namespace rehearse {

/// The closed form agrees with the analytic back end to a hundredth (test_core_estimate), and so does that of the
/// sibling.
inline constexpr double kRelaxedMargin = 0.98;

/// The plan without what is relaxed. Plans that agree in it share their Relaxed.
[[nodiscard]] StrategySettings relaxed_settings(const StrategySettings& settings);

struct Relaxed {
  bool known = false;    ///< False: outside the closed form, or refused.
  Seconds step_time;     ///< r - d - u, less what is said of unequal chunks.
  StageState stage{};    ///< The fullest.
  WholeBeside beside{};  ///< There.
  /// Of the fullest stage's parameters, those that the layers of any stage have at least.
  double share_of_layers = 0;
  LayerPasses layer{};
};

/// `settings` as relaxed_settings() gives them. Never throws Error.
[[nodiscard]] Relaxed relaxed(QuickEvaluator& quick, const SearchProblem& problem, const StrategySettings& settings);

/// Of a plan whose relaxation is known.
[[nodiscard]] Bound bound(const Relaxed& relaxed, PlanTraffic& traffic, const StrategySettings& settings);

}  // namespace rehearse
