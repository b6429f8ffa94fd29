#include "core/cluster/cluster.hpp"

#include <limits>

#include <fmt/format.h>

#include "core/cluster/cluster_impl.hpp"

namespace rehearse {
namespace {

Error out_of_range(std::string_view what, int value, int count) {
  return {ErrorKind::usage, fmt::format("{} {} does not exist: the cluster has {}", what, value, count), "cluster"};
}

void check(const std::vector<Cluster::Part>& parts) {
  if (parts.empty()) throw Error(ErrorKind::usage, "a cluster needs at least one machine", "cluster");
  long long nodes = 0, devices = 0, links = 0, nics = 0;
  bool without_nic = false;
  for (const auto& part : parts) {
    if (part.nodes < 1 || part.machine->gpus < 1)
      throw Error(ErrorKind::usage,
                  fmt::format("{} nodes of '{}' with {} GPUs: a part of a cluster cannot be empty", part.nodes,
                              part.machine->id, part.machine->gpus),
                  "cluster.nodes");
    nodes += part.nodes;
    devices += 1LL * part.nodes * part.machine->gpus;
    nics += 1LL * part.nodes * part.machine->nics;
    links += 2LL * part.nodes * static_cast<long long>(part.machine->links.size());
    without_nic = without_nic || part.machine->nics == 0;
  }
  if (nodes > 1 && without_nic)
    throw Error(ErrorKind::usage, "machines without a NIC cannot be joined to a cluster of several nodes",
                "cluster.machine", "take one node, or a machine with NICs");
  if (std::max(devices, links + 16 * nics) > std::numeric_limits<int>::max())
    throw Error(ErrorKind::usage, fmt::format("{} nodes are more than a cluster can hold", nodes), "cluster.nodes");
}

std::vector<FabricPorts> ports_of(const std::vector<Cluster::Part>& parts, BytesPerSecond port_rate) {
  std::vector<FabricPorts> ports;
  for (const auto& part : parts) {
    BytesPerSecond rate = part.machine->nic.rate;
    if (port_rate > BytesPerSecond{0}) rate = min(rate, port_rate);
    ports.push_back({part.nodes, part.machine->nics, rate});
  }
  return ports;
}

}  // namespace

const Cluster::Impl::Block& Cluster::Impl::block_of_node(NodeId n) const {
  if (n < 0 || n >= nodes) throw out_of_range("node", n, nodes);
  return block_by(&Block::first_node, n);
}

const Cluster::Impl::Place& Cluster::Impl::place(DeviceId d) const {
  if (d < 0 || d >= devices) throw out_of_range("device", d, devices);
  return places[static_cast<std::size_t>(d)];
}

Cluster::Cluster(std::string name, std::vector<Part> parts, NetworkSpec network) : impl_(std::make_unique<Impl>()) {
  check(parts);
  impl_->name = std::move(name);
  impl_->fabric = make_fabric(network, ports_of(parts, network.port_rate));
  impl_->network = std::move(network);
  impl_->parts = std::move(parts);
  for (const auto& part : impl_->parts) {
    int links = 2 * static_cast<int>(part.machine->links.size());
    impl_->blocks.push_back({part.machine.get(), part.gpu.get(), MachineRoutes(*part.machine), impl_->nodes,
                             impl_->devices, impl_->fabric_first, links});
    impl_->nodes += part.nodes;
    impl_->devices += part.nodes * part.machine->gpus;
    impl_->fabric_first += part.nodes * links;
  }
  for (const Impl::Block& block : impl_->blocks) {
    const int end = &block == &impl_->blocks.back() ? impl_->devices : (&block + 1)->first_device;
    for (int within = 0; block.first_device + within < end; ++within)
      impl_->places.push_back({&block, block.first_node + within / block.machine->gpus, within % block.machine->gpus});
  }
}

Cluster::~Cluster() = default;
Cluster::Cluster(Cluster&&) noexcept = default;
Cluster& Cluster::operator=(Cluster&&) noexcept = default;

const std::string& Cluster::name() const { return impl_->name; }
int Cluster::device_count() const { return impl_->devices; }
int Cluster::node_count() const { return impl_->nodes; }
NodeId Cluster::node_of(DeviceId d) const { return impl_->place(d).node; }
int Cluster::local_index(DeviceId d) const { return impl_->place(d).local; }
const GpuSpec& Cluster::gpu(DeviceId d) const { return *impl_->place(d).block->gpu; }
const MachineSpec& Cluster::machine(NodeId n) const { return *impl_->block_of_node(n).machine; }
const NetworkSpec& Cluster::network() const { return impl_->network; }
const std::vector<Cluster::Part>& Cluster::parts() const { return impl_->parts; }
int Cluster::link_count() const { return impl_->fabric_first + impl_->fabric->link_count(); }

DeviceId Cluster::first_device(NodeId n) const {
  const auto& block = impl_->block_of_node(n);
  return block.first_device + (n - block.first_node) * block.machine->gpus;
}

int Cluster::nic_of(DeviceId d) const {
  auto place = impl_->place(d);
  return place.block->routes.nic_of(place.local);
}

BytesPerSecond Cluster::bisection() const { return impl_->nodes > 1 ? impl_->fabric->bisection() : BytesPerSecond{}; }

BytesPerSecond Cluster::link_rate(LinkId id) const {
  if (id < 0 || id >= link_count()) throw out_of_range("link", id, link_count());
  if (id >= impl_->fabric_first) return impl_->fabric->rate(id - impl_->fabric_first) * impl_->scale_of(id);
  const auto& block = impl_->block_by(&Impl::Block::first_link, id);
  return block.machine->links[(id - block.first_link) % block.links_per_node / 2].rate * impl_->scale_of(id);
}

ClusterLink Cluster::link(LinkId id) const {
  if (id < 0 || id >= link_count()) throw out_of_range("link", id, link_count());
  if (id >= impl_->fabric_first) {
    ClusterLink out = impl_->fabric->link(id - impl_->fabric_first);
    out.rate *= impl_->scale_of(id);
    return out;
  }
  const auto& block = impl_->block_by(&Impl::Block::first_link, id);
  int node = block.first_node + (id - block.first_link) / block.links_per_node;
  int local = (id - block.first_link) % block.links_per_node;
  const auto& link = block.machine->links[local / 2];
  const auto& vertices = block.machine->vertices;
  auto [from, to] = local % 2 == 0 ? std::pair(link.a, link.b) : std::pair(link.b, link.a);
  return {fmt::format("node{}/{}>{}", node, vertices[from].name, vertices[to].name), link.rate * impl_->scale_of(id),
          link.latency};
}

Route Cluster::route(DeviceId src, DeviceId dst) const {
  auto from = impl_->place(src);
  auto to = impl_->place(dst);
  Route route;
  route.links.reserve(16);
  auto append = [&](const Impl::Place& at, MachineRoutes::Path path) {
    LinkId first = impl_->first_link(*at.block, at.node);
    for (int link : path.links) route.links.push_back(first + link);
    route.latency += path.latency;
  };
  if (from.node == to.node) {
    append(from, from.block->routes.between(from.local, to.local));
    return route;
  }
  const int last = impl_->sender(to);  // To whose NIC it comes.
  int dst_nic = to.block->routes.nic_of(last);
  int relay =
      impl_->fabric->has_rails() && from.block->machine->pxn ? from.block->routes.relay(from.local, dst_nic) : -1;
  if (relay >= 0) {
    append(from, from.block->routes.between(from.local, relay));
    from.local = relay;
  }
  if (const int first = impl_->sender(from); first != from.local) {
    append(from, from.block->routes.between(from.local, first));
    from.local = first;
  }
  append(from, from.block->routes.to_nic(from.local));
  std::size_t fabric = route.links.size();
  route.latency +=
      impl_->fabric->route(from.node, from.block->routes.nic_of(from.local), to.node, dst_nic, route.links);
  for (; fabric < route.links.size(); ++fabric) route.links[fabric] += impl_->fabric_first;
  append(to, to.block->routes.from_nic(last));
  if (last != to.local) append(to, to.block->routes.between(last, to.local));
  return route;
}

}  // namespace rehearse
