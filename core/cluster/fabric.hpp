#pragma once
// What every fabric generator shares: the site it is built for, the registry it is entered in, and the NIC ports at
// its edge.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/registry.hpp"
#include "core/cluster/cluster.hpp"

namespace rehearse {

/// Consecutive nodes with equal NICs.
struct FabricPorts {
  int nodes = 0;
  int nics = 0;         ///< Per node.
  BytesPerSecond rate;  ///< One NIC, one direction.
};

/// What a generator is given. Parts are in node order.
struct FabricSite {
  std::vector<FabricPorts> parts;
  std::map<std::string, double> parameters;
  Seconds switch_latency;
  Seconds nic_latency;
};

using FabricFactory = std::function<std::unique_ptr<Fabric>(const FabricSite&)>;

/// Every fabric generator by name ("single_switch", "fat_tree", ...).
[[nodiscard]] Registry<FabricFactory>& fabric_registry();

/// Builds the fabric that `network` names over `parts`. Besides the generator's own parameters, every network may state
/// `max_nodes`. Throws Error (usage) for an unknown generator or parameter, a value out of range, or too many nodes.
[[nodiscard]] std::unique_ptr<Fabric> make_fabric(const NetworkSpec& network, std::vector<FabricPorts> parts);

/// A whole-number parameter of at least `least`. Throws Error (usage).
[[nodiscard]] int integer_parameter(const FabricSite& site, const std::string& name, int fallback, int least = 1);
/// A 64-bit mixture of `value` (splitmix64): what ECMP and Valiant choose by, so that a choice looks random and never
/// changes.
[[nodiscard]] std::uint64_t mixed(std::uint64_t value);
/// A ratio above zero. Throws Error (usage).
[[nodiscard]] double ratio_parameter(const FabricSite& site, const std::string& name, double fallback);

/// A fabric of NIC ports at switches and trunks between switches. Links are numbered: port p owns 2p (NIC to switch)
/// and 2p+1 (switch to NIC), then the trunks. A NIC's outgoing link carries the NIC's latency and every link out of a
/// switch that switch's, so that a route's latency is the sum over its links.
class SwitchedFabric : public Fabric {
 public:
  explicit SwitchedFabric(FabricSite site);

  [[nodiscard]] int link_count() const final { return 2 * port_count_ + trunk_count(); }
  [[nodiscard]] ClusterLink link(int index) const final;
  [[nodiscard]] BytesPerSecond rate(int index) const final;
  [[nodiscard]] std::pair<FabricEnd, FabricEnd> ends(int index) const final;
  Seconds route(NodeId src, int src_nic, NodeId dst, int dst_nic, std::vector<int>& links) const final;

 protected:
  /// A NIC and where it is plugged in.
  struct Port {
    NodeId node;
    int nic;
    int index;
  };
  /// Everything that travels from one switch to another, one direction.
  struct Trunk {
    int from, to;
    BytesPerSecond rate;
  };

  [[nodiscard]] virtual int leaf_of(const Port& port) const = 0;
  [[nodiscard]] virtual int trunk_count() const = 0;
  [[nodiscard]] virtual Trunk trunk(int index) const = 0;
  /// Appends the trunks from one leaf to another; nothing when they are the same. `flow` differs between pairs of NICs
  /// and is the same in every run: where several ways are equal, it chooses.
  virtual void climb(int from_leaf, int to_leaf, std::uint64_t flow, std::vector<int>& trunks) const = 0;

  [[nodiscard]] const FabricSite& site() const { return site_; }
  [[nodiscard]] int node_count() const { return node_count_; }
  [[nodiscard]] int port_count() const { return port_count_; }
  [[nodiscard]] std::size_t part_of_node(NodeId node) const;
  /// Position of a NIC among all.
  [[nodiscard]] int port_index(NodeId node, int nic) const { return port_at(node, nic).index; }
  /// What the NICs of the first half of the nodes, or of the rest if they have less, can send together.
  [[nodiscard]] BytesPerSecond half_of_nics() const;

 private:
  struct Start {
    int node, port;
  };
  [[nodiscard]] std::size_t part_of_port(int port) const;
  [[nodiscard]] Port port_at(int index) const;
  [[nodiscard]] Port port_at(NodeId node, int nic) const;

  FabricSite site_;
  std::vector<Start> starts_;
  int node_count_ = 0;
  int port_count_ = 0;
};

}  // namespace rehearse
