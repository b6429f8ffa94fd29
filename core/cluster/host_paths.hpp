#pragma once
// The way of GPUs to their host's memory, which those behind one PCIe switch share.

#include <vector>

#include "core/cluster/cluster.hpp"

namespace rehearse {

/// Refers to the cluster, which must outlive it. May be read from several threads.
class HostPaths {
 public:
  explicit HostPaths(const Cluster& cluster);
  /// What device `d` gets to or from the nearest memory of its host, one way, while all GPUs of its node copy: of each
  /// link on the way an equal share with those that use it, too. 0 where it reaches no host.
  [[nodiscard]] BytesPerSecond share(DeviceId d) const;

 private:
  struct Part {
    NodeId first_node;
    LinkId first_link;  ///< Of that node.
    int links_per_node;
    std::vector<std::vector<int>> links;  ///< By GPU of a node, from the node's first link; towards the host.
    std::vector<int> users;               ///< GPUs whose way a link is on.
  };
  const Cluster& cluster_;
  std::vector<Part> parts_;
};

}  // namespace rehearse
