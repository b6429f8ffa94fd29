#pragma once
// What cross-entropy is told about its logits, and who hears of a loss.

#include <algorithm>

#include "gpu_backend/cuda/ops/operands.hpp"

namespace rehearse::cuda {

[[nodiscard]] inline Logits logits_of(const TensorView& x) {
  Logits z{};
  z.rows = x.extent(0) * x.extent(1), z.stored = x.extent(2);
  z.first = x.held->global[2].empty() ? 0 : x.held->global[2].front().first;
  z.valid = std::clamp<std::int64_t>(x.held->shape[2] - z.first, 0, z.stored);
  return z;
}

/// The run hears of the loss once among the ranks that computed the same.
[[nodiscard]] inline double* observed_loss(const OperatorCall& c, std::int64_t rows) {
  return c.launch->observe([observed = c.observed, counts = c.first_replica, rows](double sum) {
    if (!counts) return;
    observed->loss_sum += sum;
    observed->tokens += rows;
  });
}

}  // namespace rehearse::cuda
