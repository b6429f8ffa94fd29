#include "gpu_backend/cuda/device_probe.hpp"
#include "tests/gpu/device_under_test.hpp"

namespace rehearse {

DeviceProbe probe_cuda_devices() {
  return {{{"machine on the CPU", 9, 0, Bytes{16.0 * (1 << 30)}, 1, "0000:00:00.0"}}, {}, "13.0", "13.0"};
}
std::unique_ptr<ComputeDevice> make_cuda_device(const CudaOptions& options) { return open_cuda_device(options); }
std::string cuda_missing() { return {}; }

namespace test {

std::optional<std::string> no_device() { return std::nullopt; }
std::unique_ptr<ComputeDevice> device_under_test(Numerics numerics) { return open_cuda_device({.numerics = numerics}); }

}  // namespace test

}  // namespace rehearse
