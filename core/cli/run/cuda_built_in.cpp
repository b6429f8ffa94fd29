#include <fmt/format.h>

#include "core/cli/run/optional_parts.hpp"
#include "gpu_backend/cuda/device_probe.hpp"

namespace rehearse::cli {

std::vector<std::string> describe_cuda_devices() {
  const DeviceProbe probe = probe_cuda_devices();
  if (probe.devices.empty()) return {"none: " + probe.none_because};
  std::vector<std::string> out;
  for (const CudaDevice& d : probe.devices)
    out.push_back(fmt::format("{}, {}, {} SMs, compute capability {}.{}", d.name, to_string_iec(d.memory),
                              d.multiprocessors, d.compute_major, d.compute_minor));
  return out;
}

}  // namespace rehearse::cli
