#pragma once
// A cluster: machines and the fabric between them, as a graph whose links a flow occupies.
//
// Devices are numbered node by node. Links are directed and numbered: first the links of each node (the machine's
// links in both directions, node by node), then the fabric's. Routes are arithmetic over per-machine tables and the
// fabric generator, so that a cluster of 100,000 GPUs needs no table of pairs; `graph()` writes the whole thing out as
// a Boost.Graph graph for drawing, importing and checking.

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/hardware/specs.hpp"

namespace rehearse {

using DeviceId = int;
using NodeId = int;
using LinkId = int;

/// The directed links from one device to another and their summed latency. Order is the order of travel.
struct Route {
  std::vector<LinkId> links;
  Seconds latency;
};

struct ClusterLink {
  std::string name;     ///< "node3/GPU0>NVSwitch0", "leaf2>spine1".
  BytesPerSecond rate;  ///< Capacity in this direction.
  Seconds latency;
};

struct ClusterGraph;  // cluster_graph.hpp

/// One end of a fabric link: a NIC of a node, or a switch of the fabric.
struct FabricEnd {
  NodeId node = -1;        ///< -1 for a switch.
  int nic = -1;            ///< Index within the node.
  int fabric_switch = -1;  ///< Below Fabric::switch_count(); -1 for a NIC.
};

/// Arithmetic routing of one fabric between NICs. One file per generator (core/cluster/fabrics).
class Fabric {
 public:
  virtual ~Fabric() = default;
  [[nodiscard]] virtual int link_count() const = 0;
  [[nodiscard]] virtual ClusterLink link(int index) const = 0;
  [[nodiscard]] virtual BytesPerSecond rate(int index) const = 0;                   ///< Cheap: no name is built.
  [[nodiscard]] virtual std::pair<FabricEnd, FabricEnd> ends(int index) const = 0;  ///< In the direction of travel.
  /// Switches as the model sees them: one vertex may stand for a stage of switches over which traffic spreads evenly.
  [[nodiscard]] virtual int switch_count() const = 0;
  [[nodiscard]] virtual std::string switch_name(int index) const = 0;
  /// True where NIC i of every node is on plane i, so that senders gain by leaving through the destination's NIC index
  /// (PXN).
  [[nodiscard]] virtual bool has_rails() const { return false; }
  /// Appends the links from NIC `src_nic` of node `src` to NIC `dst_nic` of node `dst` (fabric-local indices) and
  /// returns the latency.
  virtual Seconds route(NodeId src, int src_nic, NodeId dst, int dst_nic, std::vector<int>& links) const = 0;
  /// Most bytes per second from the first half of the nodes (rounded down, in node order) to the rest, by the
  /// generator's formula.
  [[nodiscard]] virtual BytesPerSecond bisection() const = 0;
  /// One sentence: what it is, with its numbers.
  [[nodiscard]] virtual std::string summary() const = 0;
};

class Cluster {
 public:
  /// A rectangle of equal machines.
  struct Part {
    std::shared_ptr<const MachineSpec> machine;
    std::shared_ptr<const GpuSpec> gpu;
    int nodes;
  };

  /// Throws Error (usage) when a part is empty, a machine's wiring leaves a GPU unreachable, machines without a NIC
  /// would have to be joined, or the network's parameters are out of range.
  Cluster(std::string name, std::vector<Part> parts, NetworkSpec network);
  ~Cluster();
  Cluster(Cluster&&) noexcept;
  Cluster& operator=(Cluster&&) noexcept;

  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] int device_count() const;
  [[nodiscard]] int node_count() const;
  [[nodiscard]] NodeId node_of(DeviceId d) const;
  [[nodiscard]] int local_index(DeviceId d) const;
  [[nodiscard]] DeviceId first_device(NodeId n) const;
  [[nodiscard]] const GpuSpec& gpu(DeviceId d) const;
  [[nodiscard]] const MachineSpec& machine(NodeId n) const;
  [[nodiscard]] const NetworkSpec& network() const;
  [[nodiscard]] const std::vector<Part>& parts() const;

  [[nodiscard]] int link_count() const;
  [[nodiscard]] ClusterLink link(LinkId id) const;
  [[nodiscard]] BytesPerSecond link_rate(LinkId id) const;  ///< Cheap: no name is built.
  /// Links a transfer from `src` to `dst` occupies. NVLink or PCIe inside a node; outside, the NIC nearest to the
  /// source, the fabric, and the NIC nearest to the destination (PXN: over NVLink to the GPU of the destination's rail
  /// first, on rail-optimised fabrics). Empty for src == dst. The latency is the sum of the links'. Two GPUs without a
  /// common NVLink or NVSwitch use PCIe, never another GPU. Throws Error (usage) for a device that is not there.
  [[nodiscard]] Route route(DeviceId src, DeviceId dst) const;
  /// Most that the fabric carries from the first half of the nodes to the rest, one direction. 0 for one node.
  [[nodiscard]] BytesPerSecond bisection() const;
  /// NIC (index within the node) that device `d` sends through; -1 where the machine has none.
  [[nodiscard]] int nic_of(DeviceId d) const;

  /// What if: every link called `name` ('*' stands for anything) carries `factor` > 0 of its rate. Returns how many
  /// there are.
  int scale_links(const std::string& name, double factor);
  /// What if: a NIC is down. GPUs that send or receive through it do so through that of the nearest GPU whose NIC is
  /// up, over NVLink or PCIe to it. Throws Error: usage for a NIC that is not there, infeasible for a node's last one.
  void fail_nic(NodeId node, int nic);

  [[nodiscard]] ClusterGraph graph() const;
  [[nodiscard]] std::string summary() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rehearse
