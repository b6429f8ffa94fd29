#include "gpu_backend/cuda/device_probe.hpp"

namespace rehearse {

DeviceProbe probe_cuda_devices() {
  DeviceProbe probe;
  probe.none_because = "built without CUDA";
  return probe;
}

}  // namespace rehearse
