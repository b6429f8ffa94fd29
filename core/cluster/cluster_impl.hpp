#pragma once
// The inside of Cluster, shared by its sources only.

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/cluster/cluster.hpp"
#include "core/cluster/fabric.hpp"
#include "core/cluster/machine_routes.hpp"

namespace rehearse {

struct Cluster::Impl {
  /// A part with its tables and where its nodes, devices and links start.
  struct Block {
    const MachineSpec* machine;
    const GpuSpec* gpu;
    MachineRoutes routes;
    NodeId first_node;
    DeviceId first_device;
    LinkId first_link;
    int links_per_node;
  };
  struct Place {
    const Block* block;
    NodeId node;
    int local;
  };

  std::string name;
  std::vector<Part> parts;
  NetworkSpec network;
  std::vector<Block> blocks;
  std::vector<Place> places;  ///< By device.
  std::unique_ptr<Fabric> fabric;
  int nodes = 0;
  int devices = 0;
  LinkId fabric_first = 0;
  std::map<LinkId, double> scaled;  ///< Links of another rate than their specs'.
  std::set<std::pair<NodeId, int>> failed_nics;

  [[nodiscard]] const Block& block_by(int Block::*first, int value) const {
    auto it =
        std::upper_bound(blocks.begin(), blocks.end(), value, [&](int v, const Block& b) { return v < b.*first; });
    return *std::prev(it);
  }
  [[nodiscard]] const Block& block_of_node(NodeId n) const;
  [[nodiscard]] const Place& place(DeviceId d) const;
  /// The GPU through whose NIC the one at `place` sends: itself, unless its NIC is down.
  [[nodiscard]] int sender(const Place& place) const;
  [[nodiscard]] double scale_of(LinkId id) const {
    const auto at = scaled.find(id);
    return at == scaled.end() ? 1.0 : at->second;
  }
  [[nodiscard]] LinkId first_link(const Block& block, NodeId n) const {
    return block.first_link + (n - block.first_node) * block.links_per_node;
  }
};

/// "nvlink", "pcie", "socket", "c2c"; "gpu", "nvswitch", "pcie_switch", "cpu", "nic".
[[nodiscard]] std::string_view name_of(MachineSpec::LinkKind kind);
[[nodiscard]] std::string_view name_of(MachineSpec::VertexKind kind);

}  // namespace rehearse
