// The mixer of Mamba-2. Operands as in cpu/ops/state_space.cpp.

#include <algorithm>

#include "gpu_backend/cuda/kernels/state_space.hpp"
#include "gpu_backend/cuda/ops/operands.hpp"

namespace rehearse::cuda {

namespace {

StateSpaceShape state_space_shape(const OperatorCall& c) {
  const auto& d = c.dims;
  return {d.at(0), d.at(1), d.at(2), d.at(3),
          d.at(4), d.at(5), d.at(6), std::clamp<std::int64_t>(d.at(7), 1, std::max<std::int64_t>(d.at(1), 1))};
}
StateSpaceTensors inputs(const OperatorCall& c, std::size_t first) {
  const auto at = [&](std::size_t i) { return reals(c.operand(first + i)); };
  return {at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7), at(8), at(9)};
}

/// z, x, b, c, dt, convolution's weight and bias, a_log, d, dt_bias, y
void run_state_space(const OperatorCall& c) {
  const StateSpaceShape z = state_space_shape(c);
  state_space(stream(c), inputs(c, 0), reals(c.operand(10)), z,
              c.launch->scratch(state_space_scratch_bytes(z, c.operand(0).type)));
}
/// dy, what is read forward, gradients of z, x, b, c, dt; where the task accumulates, then those of the weights
void run_state_space_grad(const OperatorCall& c) {
  const StateSpaceShape z = state_space_shape(c);
  const auto at = [&](std::size_t i) { return reals(c.operand(i)); };
  StateSpaceTensors gradients{at(11), at(12), at(13), at(14), at(15), {}, {}, {}, {}, {}};
  if (c.task->accumulates)
    gradients.weight = at(16), gradients.bias = at(17), gradients.a_log = at(18), gradients.d = at(19),
    gradients.dt_bias = at(20);
  state_space_grad(stream(c), at(0), inputs(c, 1), gradients, z,
                   c.launch->scratch(state_space_grad_scratch_bytes(z, c.operand(0).type)));
}

[[maybe_unused]] const bool registered_state_space =
    cuda_operators().add({"state_space", "convolution, gate and recurrence of Mamba-2", {}, any(run_state_space)}) &&
    cuda_operators().add({"state_space_grad", "its gradients", {}, any(run_state_space_grad)});

}  // namespace

}  // namespace rehearse::cuda
