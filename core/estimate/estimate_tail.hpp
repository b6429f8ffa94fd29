#pragma once
// What follows the last pass of a step: gradients reduced late, tied and norm gradients, the gradient norm, the update,
// gathers.

#include "core/estimate/estimate_pipeline.hpp"

namespace rehearse {

/// Walks every stage's entries after its last pass, each once, in issue order. Calls that span stages begin with the
/// last of them. On return lanes stand at the end of each stage's last kernel, `events` holds the tail's events too,
/// and the result is, by stage, the kernels' breakdown and the end of everything.
struct TailResult {
  Breakdown kernels;
  double end = 0;
};
[[nodiscard]] std::vector<TailResult> walk_tails(const Program& program, const std::vector<Stage>& stages,
                                                 EstimatePrices& prices, PipelineState& state);

}  // namespace rehearse
