#pragma once
// Gradients that a step finds as zeros: their first task may overwrite them instead of adding.

#include <vector>

#include "gpu_backend/execute/plan.hpp"

namespace rehearse {

/// By instruction: whether it accumulates, and all that it adds to is zeros by then. That is so of persistent tensors
/// that begin as zeros, that no task of the step uses before, and that the last task of a step to use them fills with
/// zeros.
[[nodiscard]] std::vector<bool> adds_to_zeros(const RankPlan& plan);

}  // namespace rehearse
