// Facts about the devices of this machine; skipped where there is none.
#include <set>

#include "gpu_backend/cuda/device_probe.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/skip.hpp"

using namespace rehearse;

TEST_CASE("every device can run what the build contains") {
  const auto probe = probe_cuda_devices();
  if (probe.devices.empty()) REHEARSE_SKIP(probe.none_because);
  for (const auto& device : probe.devices) {
    INFO(device.name);
    CHECK_FALSE(device.name.empty());
    CHECK(device.compute_major >= 5);
    CHECK(device.multiprocessors >= 1);
    CHECK(device.memory > Bytes{1e9});
  }
}

TEST_CASE("devices differ in their bus address") {
  const auto probe = probe_cuda_devices();
  if (probe.devices.empty()) REHEARSE_SKIP(probe.none_because);
  std::set<std::string> addresses;
  for (const auto& device : probe.devices) addresses.insert(device.pci_bus_id);
  CHECK(addresses.size() == probe.devices.size());
}
