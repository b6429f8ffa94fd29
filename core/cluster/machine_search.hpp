#pragma once
// Shortest paths in the graph of one machine.

#include <optional>
#include <vector>

#include "core/hardware/specs.hpp"

namespace rehearse {

/// What makes one path better than another, most important first.
struct PathCost {
  int sockets = 0;  ///< Links between sockets.
  int hosts = 0;    ///< CPUs entered.
  int hops = 0;
  double width = 0;  ///< Bytes/s of the narrowest link; more is better.

  /// As near: only the width may differ.
  [[nodiscard]] bool as_near_as(const PathCost& o) const {
    return sockets == o.sockets && hosts == o.hosts && hops == o.hops;
  }
  [[nodiscard]] bool operator<(const PathCost& o) const;
};

struct FoundPath {
  PathCost cost;
  std::vector<int> links;  ///< Directed: 2i is link i from a to b, 2i+1 the way back.
};

/// Which links a path may use: NVLink between GPUs and NVSwitches, or everything that leads through hosts.
enum class Medium { nvlink, host };

/// Best paths from one vertex of `machine` to all others, by vertex; empty where there is none.
[[nodiscard]] std::vector<std::optional<FoundPath>> search_paths(const MachineSpec& machine, int from, Medium medium);

}  // namespace rehearse
