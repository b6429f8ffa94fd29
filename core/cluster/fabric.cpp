#include "core/cluster/fabric.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace rehearse {
namespace {

Error bad_parameter(const std::string& name, double value, std::string_view range) {
  return {ErrorKind::usage, fmt::format("network parameter '{}' is {}, not {}", name, value, range),
          "network.parameters." + name};
}

double value_or(const FabricSite& site, const std::string& name, double fallback) {
  auto it = site.parameters.find(name);
  return it == site.parameters.end() ? fallback : it->second;
}

std::string name_of(const FabricEnd& end, const Fabric& fabric) {
  return end.fabric_switch >= 0 ? fabric.switch_name(end.fabric_switch)
                                : fmt::format("node{}/NIC{}", end.node, end.nic);
}

void check_parameters(const NetworkSpec& network, const Registry<FabricFactory>::Entry& entry) {
  std::vector<std::string> valid{"max_nodes"};
  for (const auto& p : entry.parameters) valid.push_back(p.name);
  for (const auto& [name, value] : network.parameters)
    if (std::find(valid.begin(), valid.end(), name) == valid.end())
      throw unknown_name(fmt::format("parameter of a {} network", network.kind), name, valid);
}

}  // namespace

Registry<FabricFactory>& fabric_registry() {
  static Registry<FabricFactory> registry("network kind");
  return registry;
}

int integer_parameter(const FabricSite& site, const std::string& name, int fallback, int least) {
  double value = value_or(site, name, fallback);
  if (!(value >= least && value <= 1e9) || value != std::floor(value))
    throw bad_parameter(name, value, fmt::format("a whole number of at least {}", least));
  return static_cast<int>(value);
}

double ratio_parameter(const FabricSite& site, const std::string& name, double fallback) {
  double value = value_or(site, name, fallback);
  if (!(value > 0 && std::isfinite(value))) throw bad_parameter(name, value, "a ratio above 0");
  return value;
}

std::uint64_t mixed(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

std::unique_ptr<Fabric> make_fabric(const NetworkSpec& network, std::vector<FabricPorts> parts) {
  const auto& entry = fabric_registry().at(network.kind);
  check_parameters(network, entry);
  FabricSite site{std::move(parts), network.parameters, network.switch_latency, network.nic_latency};
  int limit = integer_parameter(site, "max_nodes", 1'000'000'000);
  int nodes = 0;
  for (const auto& p : site.parts) nodes += p.nodes;
  if (nodes > limit)
    throw Error(ErrorKind::usage, fmt::format("network '{}' joins at most {} nodes, not {}", network.id, limit, nodes),
                "cluster.nodes", "take fewer nodes or a larger network");
  return entry.value(site);
}

SwitchedFabric::SwitchedFabric(FabricSite site) : site_(std::move(site)) {
  for (const auto& p : site_.parts) {
    starts_.push_back({node_count_, port_count_});
    node_count_ += p.nodes;
    port_count_ += p.nodes * p.nics;
  }
}

std::size_t SwitchedFabric::part_of_port(int port) const {
  std::size_t part = starts_.size() - 1;
  while (starts_[part].port > port) --part;
  return part;
}

SwitchedFabric::Port SwitchedFabric::port_at(int index) const {
  std::size_t part = part_of_port(index);
  int within = index - starts_[part].port;
  int nics = site_.parts[part].nics;
  return {starts_[part].node + within / nics, within % nics, index};
}

SwitchedFabric::Port SwitchedFabric::port_at(NodeId node, int nic) const {
  std::size_t part = part_of_node(node);
  return {node, nic, starts_[part].port + (node - starts_[part].node) * site_.parts[part].nics + nic};
}

std::size_t SwitchedFabric::part_of_node(NodeId node) const {
  std::size_t part = starts_.size() - 1;
  while (starts_[part].node > node) --part;
  return part;
}

BytesPerSecond SwitchedFabric::half_of_nics() const {
  int half = node_count_ / 2;
  BytesPerSecond first, rest;
  for (std::size_t i = 0; i < starts_.size(); ++i) {
    const auto& part = site_.parts[i];
    int in_first = std::clamp(half - starts_[i].node, 0, part.nodes);
    first += (in_first * part.nics) * part.rate;
    rest += ((part.nodes - in_first) * part.nics) * part.rate;
  }
  return min(first, rest);
}

BytesPerSecond SwitchedFabric::rate(int index) const {
  if (index >= 2 * port_count_) return trunk(index - 2 * port_count_).rate;
  return site_.parts[part_of_port(index / 2)].rate;
}

std::pair<FabricEnd, FabricEnd> SwitchedFabric::ends(int index) const {
  if (index >= 2 * port_count_) {
    Trunk t = trunk(index - 2 * port_count_);
    return {{.fabric_switch = t.from}, {.fabric_switch = t.to}};
  }
  Port port = port_at(index / 2);
  FabricEnd nic{.node = port.node, .nic = port.nic};
  FabricEnd leaf{.fabric_switch = leaf_of(port)};
  if (index % 2 == 0) return {nic, leaf};
  return {leaf, nic};
}

ClusterLink SwitchedFabric::link(int index) const {
  auto [from, to] = ends(index);
  return {name_of(from, *this) + ">" + name_of(to, *this), rate(index),
          from.fabric_switch >= 0 ? site_.switch_latency : site_.nic_latency};
}

Seconds SwitchedFabric::route(NodeId src, int src_nic, NodeId dst, int dst_nic, std::vector<int>& links) const {
  Port from = port_at(src, src_nic);
  Port to = port_at(dst, dst_nic);
  links.push_back(2 * from.index);
  std::size_t trunks = links.size();
  climb(leaf_of(from), leaf_of(to),
        mixed(static_cast<std::uint64_t>(from.index) << 32 | static_cast<std::uint64_t>(to.index)), links);
  auto switches = static_cast<double>(links.size() - trunks + 1);
  for (; trunks < links.size(); ++trunks) links[trunks] += 2 * port_count_;
  links.push_back(2 * to.index + 1);
  return site_.nic_latency + switches * site_.switch_latency;
}

}  // namespace rehearse
