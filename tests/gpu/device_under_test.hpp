#pragma once
// Tests of CUDA operators run on a GPU where there is one, and everywhere on the CPU by on_cpu/: the same kernels, the
// same cases.

#include <memory>
#include <optional>
#include <string>

#include "gpu_backend/cuda/cuda_device.hpp"

namespace rehearse::test {

/// Why there is none on this machine; nothing where there is one.
[[nodiscard]] std::optional<std::string> no_device();
[[nodiscard]] std::unique_ptr<ComputeDevice> device_under_test(Numerics numerics);

}  // namespace rehearse::test
