#pragma once
// Least step time and least memory of a plan, from one microbatch of the whole network on the ranks that divide its
// layers.
//
// With w the time of one microbatch through all layers, forward and backward, its tensor-, context- and expert-parallel
// communication included, on the devices where the plan puts its first ranks; p stages, m microbatches, r the
// schedule's bubble over its work (Schedule::bubble_ratio):
//
//   step >= m k / p                k: kernels alone of w
//
// is true by construction: every stage runs its passes' kernels one after the other, the p stages together those of m
// microbatches through all layers, and the slowest does no less than the mean. k is of a microbatch that accumulates
// nothing and casts nothing, which others may. What this excludes is excluded by proof (Bound::proven). Nearer, but
// with margins that are chosen:
//
//   step >= m w / p (1 + r),   memory >= 1.08 (states / p + s c / (p v)) + framework
//
// and no less than m times the layers of the stage that has most of them, each of its share of w,
// since the slowest stage does no less than the mean of them, and what else a step does (pipeline messages, gradients,
// update) only adds. and, where activations lie in host memory, no less than the way back of what a stage moves takes
// for m microbatches. `states` are weights, gradients and optimizer state, each divided as the plan divides it; s is
// what a microbatch keeps for backward, c the chunks that the first stage keeps at once, v its chunks.
//
// So far derived. The margins below allow for what differs between a stage and the mean; they are chosen, and were
// never exceeded on the plans that test_core_search draws over whole spaces: a plan outside them would be missed.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/estimate/evaluation.hpp"
#include "core/schedule/schedule.hpp"

namespace rehearse {

/// Compute and bytes are multiplied by this: the bubble formulas are for equal passes, and a microbatch that is not the
/// first accumulates.
inline constexpr double kBoundMargin = 0.97;
/// Exposed communication by this: its shape differs a little between a stage and the whole.
inline constexpr double kExposedMargin = 0.8;
/// The same in schedules of interleaved pairs, where each pass can hide the other's.
inline constexpr double kPairedMargin = 0.4;

/// What plans that divide layers and samples alike have in common.
struct PassCosts {
  bool known = false;        ///< False: nothing is bounded (unequal blocks, or the lowering refused).
  Seconds compute, exposed;  ///< w: kernels, and the communication that they wait for.
  Seconds launch;            ///< Of `compute`, what waits for the host: an interleaved pair can hide it.
  Bytes weights, gradients, optimizer;
  Bytes saved;                           ///< s
  Bytes halved;                          ///< The same between the halves of backward; 0 where that is whole.
  Seconds layer_compute, layer_exposed;  ///< Of one layer of w.
  int layers = 0;
  bool experts = false;
  double outside_layers = 0;  ///< Parameters there over those of all layers, where backward is split.
  BytesPerSecond from_host;   ///< What a device gets of its host's memory beside copies the other way.
  Seconds kernels;            ///< k
};

struct Bound {
  Seconds step_time;
  Bytes memory;
  Seconds proven{};  ///< A step time that is derived without a margin; 0: none is known.
};

/// m k / p, of plans that divide layers and samples as `costs` do.
[[nodiscard]] Seconds proven_step(const PassCosts& costs, const StrategySettings& settings, std::int64_t global_batch);

/// What no plan beats: the matrix products of a step, causal attention at half and nothing made twice, at the peaks of
/// all devices. 0 where networks convolve, which minimal filtering does with fewer products than are counted, and where
/// no peak is known.
[[nodiscard]] Seconds step_at_peak(const SearchProblem& problem);

/// Layers of every chunk, in model order, as lowering deals them out.
[[nodiscard]] std::vector<int> chunk_layers(int chunks, int layers);
/// Layers of every stage where `layers`, no fewer than chunks, are dealt out to chunks in parts that differ by one at
/// most, as lowering does; of one copy.
[[nodiscard]] std::vector<int> stage_layers(const Schedule& schedule, const PipelineShape& shape, int layers);

/// Whether what layers keep for backward goes to host memory.
[[nodiscard]] bool moves_activations(const StrategySettings& settings);

/// What plans must have in common to share PassCosts: how layers and samples are divided, and how far apart on the
/// devices their parts are.
struct PassKey {
  struct Division {
    std::array<std::int64_t, 11> sizes;
    DeclaredSettings declared;
    bool operator==(const Division&) const = default;
    bool operator<(const Division& other) const {
      return sizes != other.sizes ? sizes < other.sizes : declared < other.declared;
    }
  };
  Division division;
  std::array<std::int64_t, 3> distances;
  bool operator<(const PassKey& other) const {
    return division == other.division ? distances < other.distances : division < other.division;
  }
};
[[nodiscard]] PassKey pass_key(const StrategySettings& settings);
/// Lowers and prices them. Never throws Error.
[[nodiscard]] PassCosts pass_costs(const SearchProblem& problem, const StrategySettings& settings);
/// Of each of these, whose PassKey::division is the same: lowered once, priced at each place.
[[nodiscard]] std::vector<PassCosts> pass_costs(const SearchProblem& problem, std::span<const StrategySettings> places);
[[nodiscard]] Bound bound(const PassCosts& costs, const StrategySettings& settings, std::int64_t global_batch);

}  // namespace rehearse
