#pragma once
// Least step time under schedules that split backward or interleave passes, from two stages of few layers in the middle
// of their step.
//
// A sibling of two stages that runs the same schedule is played for m1 and for m2 microbatches: what a stage is busy
// with (kernels, what they are slowed by, and the tensor- and context-parallel communication that they wait for) for
// one more is the difference over m2 - m1. Two numbers of layers then tell the time t of a layer from e, that of what
// stands outside the layers on the stage that has most of it. With L layers, p stages, m microbatches, the schedule's
// bubble r over its work:
//
//   step >= m (L / p) t (1 + r) + h
//   step >= m l t + h               l: layers of a stage, h: what no pass hides of its update on CPU cores, where that
//   is there step >= m (l t + e) + h         of the stage that has the last chunk step >= m n c                   n:
//   layers of a stage whose activations are moved to the host, c: the way back of one's, one after the other
//
// Messages, gradients and update on the device only add.

#include <string>
#include <tuple>

#include "core/search/bounds/bounds.hpp"

namespace rehearse {

/// What is played is as exact as the closed form (test_core_estimate); passes at either end of a step hide less of
/// their communication, not more.
inline constexpr double kSteadyMargin = 0.995;

struct SteadyStep {
  bool known = false;
  Seconds layer, ends;  ///< t and e.
  int layers = 0;       ///< Of the network.
  Bytes moved;          ///< Of a layer for a microbatch, to the host and back, where activations are moved.
};

/// Whether plans like this one are bounded so.
[[nodiscard]] bool has_steady_step(const SearchProblem& problem, const StrategySettings& settings);
/// What plans must have in common to share one.
using SteadyKey = std::tuple<PassKey, std::string, bool>;
[[nodiscard]] SteadyKey steady_key(const StrategySettings& settings);
/// Lowers and plays four small Programs. Never throws Error.
[[nodiscard]] SteadyStep steady_step(const SearchProblem& problem, const StrategySettings& settings);
/// What a plan that moves something to the host adds to it.
struct HostTimes {
  Seconds update, copy;  ///< h before any of it is hidden, and c.
};
[[nodiscard]] Seconds least_step(const SteadyStep& steady, const HostTimes& host, const StrategySettings& settings,
                                 std::int64_t global_batch);

}  // namespace rehearse
