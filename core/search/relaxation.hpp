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
// Where steps hand work to the next, the period of steps counts: one step's drain may hide the next one's fill, and r's bubble is left out.
//
// Where chunks have unequal numbers of layers, the sibling's all have as many as the longest: it has `n` layers too many, and each stage
// up to `h` more than the stage that has most. With t the time of a layer's forward and backward, m microbatches,
//
//   step >= r - d - u - (m h + b n) t               the slowest stage does m passes of its layers, and waits b times for those of all others:
//                                                   the schedule's bubble over (p - 1) / v of a stage's passes, which is once, filling
//                                                   and draining the pipeline, for 1F1B (Narayanan et al. 2021, section 2.2)
//
// and memory is scaled by the layers of the fullest stage. The inequalities are derived; the margins are chosen, and were never exceeded on the
// plans that test_core_search draws over whole spaces. Far nearer than bounds.hpp, for networks of equal layers in whole passes alone.

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
  Seconds bubble;          ///< In it: what the slowest stage waits for others' passes.
  Bytes weights, gradients, optimizer, activations;  ///< Of the fullest stage.
};

/// `settings` as relaxed_settings() gives them. Never throws Error.
[[nodiscard]] Relaxed relaxed(QuickEvaluator& quick, const SearchProblem& problem, const StrategySettings& settings);
/// Of a plan whose relaxation is known.
[[nodiscard]] Bound bound(const Relaxed& relaxed, const SearchProblem& problem, const StrategySettings& settings);

}  // namespace rehearse
