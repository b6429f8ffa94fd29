#pragma once
// What a plan that shards, moves or gathers cannot beat: the same plan without any of it.
//
// Let r be the step of the plan with whole parameters, gradients and optimizer state on every replica, nothing on the host and gradients reduced
// after the last pass, by the closed form; d what its slowest stage waits for data parallelism and u its update. Then, with margins,
//
//   step >= r - d - u                               sharding, prefetch and copies to the host only add to passes and bubble
//   step >= m g t(g)                                g gathers or scatters of a stage's parameters per microbatch, each t (collective model)
//   memory >= 1.08 (states, divided as the plan divides them, + activations that stay on the device) + framework
//
// Far nearer than bounds.hpp, for plans of equal layers in whole passes alone.

#include "core/search/bounds.hpp"

namespace rehearse {

/// The closed form agrees with what is played to a hundredth.
inline constexpr double kRelaxedMargin = 0.98;
/// Parameters that stay whole (small ones, those outside the layers) are not told apart.
inline constexpr double kTrafficMargin = 0.8;

/// The plan without what is relaxed. Plans that agree in it share their Relaxed.
[[nodiscard]] StrategySettings relaxed_settings(const StrategySettings& settings);

struct Relaxed {
  bool known = false;      ///< False: outside the closed form, or refused.
  Seconds step_time;       ///< r - d - u
  Bytes weights, gradients, optimizer, activations;  ///< Of the fullest stage.
};

/// `settings` as relaxed_settings() gives them. Never throws Error.
[[nodiscard]] Relaxed relaxed(QuickEvaluator& quick, const StrategySettings& settings);
/// Of a plan whose relaxation is known.
[[nodiscard]] Bound bound(const Relaxed& relaxed, const SearchProblem& problem, const StrategySettings& settings);

}  // namespace rehearse
