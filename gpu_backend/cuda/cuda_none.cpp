#include <fmt/format.h>

#include "gpu_backend/cuda/cuda_device.hpp"
#include "gpu_backend/cuda/device_probe.hpp"

namespace rehearse {

namespace {

Error absent() {
  return {ErrorKind::unavailable, cuda_missing(), "--device cuda",
          "build where nvcc, cuBLASLt and NCCL are installed, or use --device cpu"};
}

}  // namespace

std::string cuda_missing() { return "this build has no CUDA operators"; }

Registry<Operator>& cuda_operators() {
  static Registry<Operator> registry("CUDA operator");
  return registry;
}

std::unique_ptr<ComputeDevice> make_cuda_device(const CudaOptions&) {
  const DeviceProbe probe = probe_cuda_devices();
  if (probe.devices.empty())
    throw Error(ErrorKind::unavailable, fmt::format("no CUDA device: {}", probe.none_because), "--device cuda",
                "run on a machine with an NVIDIA GPU and driver, or use --device cpu");
  throw absent();
}

std::unique_ptr<ComputeDevice> open_cuda_device(const CudaOptions&) { throw absent(); }

CudaMemory cuda_memory(const ComputeDevice& device) {
  throw std::logic_error("device '" + device.name() + "' is no GPU");
}
std::string cuda_attention(const ComputeDevice& device) {
  throw std::logic_error("device '" + device.name() + "' is no GPU");
}
std::string cuda_convolutions(const ComputeDevice& device) {
  throw std::logic_error("device '" + device.name() + "' is no GPU");
}

}  // namespace rehearse
