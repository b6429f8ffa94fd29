#pragma once
// Which device each rank runs on, from a file that a user or a scheduler wrote.

#include <string>
#include <string_view>
#include <vector>

#include "core/cluster/cluster.hpp"

namespace rehearse {

/// Devices in rank order. Nodes are named node0, node1, ... in the cluster's order. The text is one of:
///
///   JSON          [0, 8, "node1/GPU3", {"node": 2, "gpu": 0}]      entry r is rank r's device
///   device list   node0/GPU5                                       line r is rank r's device, or its number
///   rank file     rank 0=node3 slot=5                              as Open MPI writes it; any order, all ranks
///   host file     node3 slots=8    node[4-6]:2    node7            ranks in order: so many on the first devices of
///   each node; all without a
///                                                                  number. A node named again goes on where it stopped
///
/// Empty lines and what follows a # are passed over. Throws Error (usage), `where` "origin:line" or "origin: /path",
/// for a node or device that is not there, a device with two ranks, a rank that is missing or named twice, more slots
/// than devices, and a mixture of forms.
[[nodiscard]] std::vector<DeviceId> read_placement(std::string_view text, const std::string& origin,
                                                   const Cluster& cluster);

/// The first `count` devices of every node. Throws Error (usage), with `where`, where a node has fewer.
[[nodiscard]] std::vector<DeviceId> first_devices(const Cluster& cluster, int count, const std::string& where);

}  // namespace rehearse
