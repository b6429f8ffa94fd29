#pragma once
// What parameters, gradients and activations that do not stay where passes need them take at least, of one stage.

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include "core/cluster/host_paths.hpp"
#include "core/estimate/evaluation.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

/// Of what is moved or copied: parameters that stay whole (small ones, those outside the layers) are not told apart.
inline constexpr double kTrafficMargin = 0.8;
/// Of copies on the device or between it and its host, and of updates there.
inline constexpr double kCopyMargin = 0.9;

/// What passes of a chunk wait for activations that go to the host and come back: for each layer whose are moved but
/// one, and for that one. The last to leave in forward and the first to come back in the backward of another microbatch
/// are under way at once.
struct MoveWaits {
  Seconds each, last;
  [[nodiscard]] Seconds of(int moved) const { return moved > 0 ? each * (moved - 1) + last : Seconds{}; }
};

/// Of an update on CPU cores, what no pass hides: parameters that are updated last are needed when the pipeline has
/// been filled only, and gradients that are there first, before it is empty. `microbatch`: passes of one.
[[nodiscard]] inline Seconds exposed_update(Seconds update, Seconds microbatch, int stages, int microbatches) {
  return max(Seconds{0}, update - microbatch * std::min(stages, microbatches));
}

/// For many threads. `problem` must outlive it.
class PlanTraffic {
 public:
  explicit PlanTraffic(const SearchProblem& problem)
      : problem_(problem), experts_(problem.workload.network.routing() != nullptr), paths_(problem.cluster) {}
  [[nodiscard]] const SearchProblem& problem() const { return problem_; }

  /// Gathers of a stage's weights and scatters of its gradients that each microbatch makes, one after the other, in
  /// calls no larger than a `part` of it and a bucket: over the first stage's first group of shards. 0 where those do
  /// not lie evenly, and for networks with experts, whose shards lie over other ranks.
  [[nodiscard]] Seconds over_replicas(const StrategySettings& settings, Bytes weights, Bytes gradients, double part);
  /// What a pass of each microbatch, forward and backward, waits for besides: copies out of gathers' buffers and into
  /// scatters' for each of the stage's layers (`weights`, `gradients`: of one), and activations on their way to the
  /// host and back, as far as they take longer than the layers beside them.
  [[nodiscard]] Seconds waits_of_passes(const StrategySettings& settings, Bytes weights, Bytes gradients,
                                        const LayerPasses& layer, int layers_of_chunk) const;
  /// Of a copy beside those the other way.
  [[nodiscard]] Seconds copy(Bytes bytes, bool to_host) const;
  /// Of layers that keep so much, beside their forwards and their backwards.
  [[nodiscard]] MoveWaits waits_for_moves(Bytes kept, Seconds forward, Seconds backward) const;
  /// Optimizer state that is updated on CPU cores, once a step. Each undivided.
  [[nodiscard]] Seconds update_on_host(const StrategySettings& settings, Bytes weights, Bytes gradients,
                                       Bytes optimizer) const;

 private:
  static constexpr double kStepsPerDoubling = 16;
  [[nodiscard]] Seconds in_calls(CollectiveOp op, const StrategySettings& settings, Bytes bytes, Bytes largest);
  [[nodiscard]] Seconds of_call(CollectiveOp op, const StrategySettings& settings, Bytes bytes);

  const SearchProblem& problem_;
  const bool experts_;
  HostPaths paths_;
  std::mutex mutex_;
  /// By shards, distance between them and size, rounded down.
  std::map<std::tuple<CollectiveOp, int, int, int>, Seconds> known_;
};

}  // namespace rehearse
