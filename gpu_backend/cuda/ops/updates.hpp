#pragma once
// What updates are told about their tensors.

#include <vector>

#include "gpu_backend/cuda/ops/operands.hpp"

namespace rehearse::cuda {

/// Calls f(tensors, types) for tensors of equal types together, in their order. Per parameter: gradient, weights,
/// `states` further tensors.
template <class F>
void by_types(const OperatorCall& c, std::size_t states, F f) {
  std::vector<Updated> tensors;
  UpdateTypes types{};
  const auto flush = [&] {
    if (!tensors.empty()) f(tensors, types);
    tensors.clear();
  };
  for (std::size_t i = 0; i + states + 1 < c.operands.size(); i += states + 2) {
    const TensorView &g = c.operand(i), &w = c.operand(i + 1);
    const UpdateTypes these{g.type, w.type, c.operand(i + 2).type};
    if (these.gradient != types.gradient || these.weights != types.weights || these.state != types.state) flush();
    types = these;
    tensors.push_back({g.data, w.data, c.operand(i + 2).data, states > 1 ? c.operand(i + 3).data : nullptr,
                       g.elements(), decay_of(c, w)});
  }
  flush();
}

[[nodiscard]] inline AdamRule adam_rule(const OperatorCall& c) {
  const auto& s = c.task->scalars;
  return {
      s.at(0), s.at(2), s.at(3), s.at(4), correction(c, s.at(2)), correction(c, s.at(3)), c.task->variant == "adamw"};
}

/// Who hears of the gradients' norm.
[[nodiscard]] inline double* observed_norm(const OperatorCall& c) {
  return c.launch->observe([observed = c.observed](double sum) { observed->norm_squared = sum; });
}

}  // namespace rehearse::cuda
