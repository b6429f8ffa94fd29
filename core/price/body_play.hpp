#pragma once
// Plays the priced tasks of one body on the streams of one rank: streams are FIFO, dependencies cross them, and kernels
// run slower while collectives run beside them.

#include <vector>

#include "core/price/cost_model.hpp"

namespace rehearse {

struct BodyTask {
  StreamId stream = 0;
  std::vector<int> after;  ///< Tasks of the body, all of lower number.
  PricedTask priced;
  bool computes = false;  ///< A kernel: slowed by others' load, attributed to its own category.
  Interference load;      ///< What it takes from kernels, if it is a collective.
};

/// Duration, breakdown and spans; the breakdown adds up to the duration. While no kernel runs, time goes to the
/// category of the collective that runs.
[[nodiscard]] PricedBody play_body(const std::vector<BodyTask>& tasks);

/// The CPU launches kernels ahead of a busy GPU, but a body is never faster than its launches: duration becomes
/// (duration^q + host^q)^(1/q) with q = 4.5, a smooth maximum (estimate: no row at hand tests it); the difference is
/// category launch.
void apply_launch_floor(PricedBody& body);
/// The CPU waits for every kernel (CUDA_LAUNCH_BLOCKING=1): duration becomes duration + host; the difference is
/// category launch.
void add_host_time(PricedBody& body);

/// How much longer each kernel of a body takes for what its launches add to it: at least 1. A body that is played task
/// by task, because its exchanges leave the node or two calls take turns, holds its launches so.
[[nodiscard]] double kernel_stretch(const PricedBody& body);

/// Moves to category launch what `stretch` added to the kernels of a breakdown.
void attribute_stretch(Breakdown& breakdown, double stretch);

}  // namespace rehearse
