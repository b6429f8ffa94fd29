#pragma once
// Physics of a run, checked apart from what produced it: no link carries more than its rate, no message beats its
// narrowest wire.

#include "core/play/player/actors.hpp"

namespace rehearse {

class Audit {
 public:
  explicit Audit(const Cluster& cluster) : cluster_(cluster) {}

  /// A message of `bytes` per lane took `seconds` over a route whose slowest link carries `narrowest` bytes a second.
  void flow(DeviceId src, DeviceId dst, double narrowest, double bytes, double seconds);
  /// Bytes per link over the whole run of `seconds`; fills breaches and the busiest links.
  void close(const std::vector<double>& link_bytes, double seconds, RunResult& result) const;

 private:
  const Cluster& cluster_;
  std::vector<Breach> breaches_;
};

}  // namespace rehearse
