#pragma once
// The CPU as a device: the caller's thread computes, communication runs beside it on threads of its own.

#include <memory>

#include "core/base/registry.hpp"
#include "gpu_backend/execute/device.hpp"

namespace rehearse {

/// Operators of the CPU by name ("matmul.linear"). One file in cpu/ops per family; each registers its entries.
[[nodiscard]] Registry<Operator>& cpu_operators();

/// An entry for a kernel that is a template over the real type: `both<Kernel>()` where Kernel<T>::run(const
/// OperatorCall&).
template <template <class> class Kernel>
[[nodiscard]] Operator both() {
  return {&Kernel<float>::run, &Kernel<double>::run};
}

/// What the entry of an `activation_grad.NAME` says of its operands where it is the gradient of a function of one
/// number, `activation.NAME`: tests then compare it with differences.
[[nodiscard]] inline std::vector<ParameterHelp> curve_gradient() {
  return {
      {"dy", "gradient of the result", ""}, {"x", "what the function was taken of", ""}, {"dx", "its gradient", ""}};
}

/// A device whose streams are queues. wait() works them off: tasks that compute run in the thread that waits, in order
/// of issue among those that are ready; communication is started as soon as it is ready.
[[nodiscard]] std::unique_ptr<ComputeDevice> make_cpu_device(Numerics numerics);

}  // namespace rehearse
