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
  /// `link_bytes`: over the whole run of `steps` steps and `seconds`, which is what links are held to. Fills breaches,
  /// and the links' bytes, time and busiest per step: the one place where what a run carried becomes what a step does.
  void close(const std::vector<double>& link_bytes, double seconds, int steps, RunResult& result) const;

 private:
  const Cluster& cluster_;
  std::vector<Breach> breaches_;
};

}  // namespace rehearse
