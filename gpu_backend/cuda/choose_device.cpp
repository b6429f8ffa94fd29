#include <fmt/format.h>

#include "gpu_backend/cuda/cuda_device.hpp"
#include "gpu_backend/cuda/device_probe.hpp"

namespace rehearse {

std::unique_ptr<ComputeDevice> make_cuda_device(const CudaOptions& options) {
  const DeviceProbe probe = probe_cuda_devices();
  if (probe.devices.empty())
    throw Error(ErrorKind::unavailable, fmt::format("no CUDA device: {}", probe.none_because), "--device cuda",
                "run on a machine with an NVIDIA GPU and driver, or use --device cpu");
  if (options.index < 0 || options.index >= static_cast<int>(probe.devices.size()))
    throw Error(ErrorKind::unavailable,
                fmt::format("there is no CUDA device {}: this machine shows {}", options.index, probe.devices.size()),
                "--device cuda", "start at most one rank per GPU, or add --share-gpu to test several ranks on one");
  return open_cuda_device(options);
}

std::string cuda_missing() { return {}; }

}  // namespace rehearse
