#pragma once
// A GPU as a device: a CUDA stream per stream of the Program, memory taken and given back in order of the streams.
// Present in every build; where CUDA is missing making one throws.

#include <functional>
#include <memory>
#include <string_view>

#include "core/base/registry.hpp"
#include "gpu_backend/execute/device.hpp"

namespace rehearse {

/// Operators of GPUs by name, those of cpu_operators(). Empty in a build without CUDA.
[[nodiscard]] Registry<Operator>& cuda_operators();

struct CudaOptions {
  int index = 0;  ///< Of the visible devices.
  Numerics numerics = Numerics::plan;
  Bytes memory_limit{0};  ///< Device memory this process may take for tensors; 0: all there is.
  /// To find the task that fails or hangs: called with the name of each before it is issued, and the host waits for it
  /// before the next. Errors then name the task. Null: tasks are issued ahead.
  std::function<void(std::string_view task)> on_task{};
};

/// Throws Error (unavailable) with the next step to take where there is no such device, or this build has none.
[[nodiscard]] std::unique_ptr<ComputeDevice> make_cuda_device(const CudaOptions& options);

/// The same without looking for the device first.
[[nodiscard]] std::unique_ptr<ComputeDevice> open_cuda_device(const CudaOptions& options);

/// Device memory that tensors and scratch of `device` held at most, and now: what the driver counts. Throws
/// std::logic_error for other devices.
struct CudaMemory {
  Bytes peak, now, capacity;
};
[[nodiscard]] CudaMemory cuda_memory(const ComputeDevice& device);

/// What computes the attention of `device`, for people: "cuDNN 9.19.0: 2 of 2 kinds of calls, gradients in one order".
/// Throws std::logic_error for other devices.
[[nodiscard]] std::string cuda_attention(const ComputeDevice& device);
/// The same of its convolutions; empty where cuDNN was asked for none.
[[nodiscard]] std::string cuda_convolutions(const ComputeDevice& device);

/// Whether this build can run Programs on GPUs, and why not: "this build has no CUDA compiler"; empty where it can.
[[nodiscard]] std::string cuda_missing();

}  // namespace rehearse
