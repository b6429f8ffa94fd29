#pragma once
// Which CUDA devices this process can use. Plain C++: callers need no CUDA header, and the function exists in every
// build.

#include <string>
#include <vector>

#include "core/base/units.hpp"

namespace rehearse {

/// A visible device, in the runtime's order (after CUDA_VISIBLE_DEVICES).
struct CudaDevice {
  std::string name;       ///< As the driver gives it: "NVIDIA H100 80GB HBM3".
  int compute_major = 0;  ///< Compute capability 9.0 is major 9, minor 0.
  int compute_minor = 0;
  Bytes memory;             ///< Total device memory; some of it belongs to the driver.
  int multiprocessors = 0;  ///< SMs that the process may use (fewer than the chip's under MIG).
  std::string pci_bus_id;   ///< "0000:1b:00.0": domain, bus, device, function.
};

struct DeviceProbe {
  std::vector<CudaDevice> devices;
  /// Why `devices` is empty, as part of a sentence: "no NVIDIA driver found". Empty when it isn't.
  std::string none_because;
  std::string runtime_version;  ///< CUDA runtime linked in, "13.0"; empty in a build without CUDA.
  std::string driver_version;   ///< Newest CUDA that the driver supports; empty without a driver.
};

/// Looks at the machine now. Makes no CUDA context, so that it costs no device memory. Never throws for what the
/// machine lacks.
[[nodiscard]] DeviceProbe probe_cuda_devices();

}  // namespace rehearse
