#pragma once
// What a GPU does as one call: see execute/fuse/fusion.hpp. The operators of the tasks are the reference.

#include <algorithm>
#include <span>
#include <vector>

#include "gpu_backend/execute/fuse/fusion.hpp"

namespace rehearse::cuda {

using FusedCalls = std::span<const FusedCall>;

/// Every task by its own operator; what no other task sees is scratch.
void one_by_one(FusedCalls calls);

[[nodiscard]] const std::vector<Fusion>& fused_products();
/// Does the gradients of a product's weight and of its bias as one call, where that is what the two tasks are and
/// there is a way.
[[nodiscard]] bool ran_weight_and_bias_grads(FusedCalls calls);
[[nodiscard]] const std::vector<Fusion>& fused_passes();
[[nodiscard]] const std::vector<Fusion>& fused_rotations();
/// All of them.
[[nodiscard]] const std::vector<Fusion>& fusions();

}  // namespace rehearse::cuda
