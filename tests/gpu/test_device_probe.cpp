// What holds on every machine, with or without a GPU.
#include "gpu_backend/cuda/device_probe.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

TEST_CASE("a probe gives devices or the reason why there is none, never both") {
  const auto probe = probe_cuda_devices();
  CHECK(probe.devices.empty() != probe.none_because.empty());
}

TEST_CASE("devices need a driver and a runtime") {
  const auto probe = probe_cuda_devices();
  if (probe.driver_version.empty() || probe.runtime_version.empty()) CHECK(probe.devices.empty());
}

TEST_CASE("a second probe sees the same machine") {
  const auto first = probe_cuda_devices();
  const auto second = probe_cuda_devices();
  CHECK(first.none_because == second.none_because);
  CHECK(first.driver_version == second.driver_version);
  REQUIRE(first.devices.size() == second.devices.size());
  for (std::size_t i = 0; i < first.devices.size(); ++i)
    CHECK(first.devices[i].pci_bus_id == second.devices[i].pci_bus_id);
}
