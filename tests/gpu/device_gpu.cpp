#include "gpu_backend/cuda/device_probe.hpp"
#include "tests/gpu/device_under_test.hpp"

namespace rehearse::test {

std::optional<std::string> no_device() {
  if (!cuda_missing().empty()) return cuda_missing();
  const DeviceProbe probe = probe_cuda_devices();
  return probe.devices.empty() ? std::optional(probe.none_because) : std::nullopt;
}
std::unique_ptr<ComputeDevice> device_under_test(Numerics numerics) { return make_cuda_device({.numerics = numerics}); }

}  // namespace rehearse::test
