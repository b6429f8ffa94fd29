#pragma once
// How fast copies between a device and its host's memory are.

#include "core/cluster/host_paths.hpp"

namespace rehearse {

/// A copy alone over what its link signals at: 25.1 to 26 of 31.5 GB/s on A100, 52.8 of 63 on H100
/// (github.com/NVIDIA/nvbandwidth, issues 11, 42, 24).
inline constexpr double kCopyOfRaw = 0.82;
/// What is left to a copy to the device while another comes from it: 12 to 13 of 25 to 26 GB/s, the other keeps 24
/// (issues 11 and 53, A100; others are supposed alike). Steps that keep something in host memory copy both ways at
/// once.
inline constexpr double kInBesideOut = 0.5;
/// Of an asynchronous copy, before its first byte. An estimate.
inline constexpr Seconds kCopyCall{5e-6};

/// Of a copy beside those of all other GPUs of the node, which do the same at the same time; `beside_out`: to the
/// device, while others leave it. Memory of the host itself is taken to keep up.
[[nodiscard]] inline BytesPerSecond copy_rate(const Cluster& cluster, const HostPaths& paths, DeviceId d,
                                              bool beside_out) {
  const BytesPerSecond share = paths.share(d);
  const BytesPerSecond rate = (share > BytesPerSecond{0} ? share : cluster.gpu(d).pcie.per_direction) * kCopyOfRaw;
  return beside_out ? rate * kInBesideOut : rate;
}

}  // namespace rehearse
