#pragma once
// The CPU as a device: the caller's thread computes, communication runs beside it on threads of its own.

#include <memory>

#include "core/base/registry.hpp"
#include "core/base/units.hpp"
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

/// Most collectives within a step are shorter.
inline constexpr Seconds kCpuDeviceAwake{2e-3};

/// A device whose streams are queues. wait() works them off: tasks that compute run in the thread that waits, in order
/// of issue among those that are ready; communication is started as soon as it is ready. Where nothing else is left to
/// do, wait() watches for communication to end for `awake`, and then sleeps until it does. Watching is for ranks that
/// have a processor each: a processor that went to sleep takes long to come back, for the transport's threads too.
/// Ranks that share processors had better sleep at once (0).
[[nodiscard]] std::unique_ptr<ComputeDevice> make_cpu_device(Numerics numerics, Seconds awake = kCpuDeviceAwake);

}  // namespace rehearse
