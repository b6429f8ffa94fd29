#include <cuda_runtime_api.h>

#include <array>

#include "gpu_backend/cuda/device_probe.hpp"

namespace rehearse {
namespace {

/// CUDA writes 13.0 as 13000 and 12.4 as 12040.
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string reason(cudaError_t error) {
  switch (error) {
    case cudaErrorInsufficientDriver: return "no NVIDIA driver found, or one too old for this build";
    case cudaErrorNoDevice: return "the NVIDIA driver shows no device";
    default: return std::string("CUDA says: ") + cudaGetErrorString(error);
  }
}

/// An attribute, or 0 where the driver doesn't know it.
int attribute(cudaDeviceAttr which, int index) {
  int value = 0;
  return cudaDeviceGetAttribute(&value, which, index) == cudaSuccess ? value : 0;
}

CudaDevice describe(int index, const cudaDeviceProp& properties) {
  CudaDevice device;
  device.name = properties.name;
  device.compute_major = properties.major;
  device.compute_minor = properties.minor;
  device.memory = Bytes{static_cast<double>(properties.totalGlobalMem)};
  device.multiprocessors = attribute(cudaDevAttrMultiProcessorCount, index);
  std::array<char, 32> bus_id{};
  if (cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), index) == cudaSuccess)
    device.pci_bus_id = bus_id.data();
  return device;
}

void read_versions(DeviceProbe& probe) {
  int version = 0;
  if (cudaRuntimeGetVersion(&version) == cudaSuccess) probe.runtime_version = version_text(version);
  if (cudaDriverGetVersion(&version) == cudaSuccess && version > 0) probe.driver_version = version_text(version);
}

void read_devices(DeviceProbe& probe) {
  int count = 0;
  auto error = cudaGetDeviceCount(&count);
  for (int index = 0; error == cudaSuccess && index < count; ++index) {
    cudaDeviceProp properties{};
    error = cudaGetDeviceProperties(&properties, index);
    if (error == cudaSuccess) probe.devices.push_back(describe(index, properties));
  }
  if (probe.devices.empty()) probe.none_because = reason(error == cudaSuccess ? cudaErrorNoDevice : error);
}

}  // namespace

DeviceProbe probe_cuda_devices() {
  DeviceProbe probe;
  read_versions(probe);
  read_devices(probe);
  cudaGetLastError();  // A machine without a device must not leave an error behind for the next caller.
  return probe;
}

}  // namespace rehearse
