#include "core/collective/node_wiring.hpp"

#include <algorithm>
#include <set>

namespace rehearse::nccl {
namespace {

constexpr double kGiga = 1e9;
using Kind = MachineSpec::VertexKind;
using LinkKind = MachineSpec::LinkKind;

struct Reader {
  const MachineSpec& machine;

  [[nodiscard]] int gpu_vertex(int gpu) const {
    for (std::size_t v = 0; v < machine.vertices.size(); ++v)
      if (machine.vertices[v].kind == Kind::gpu && machine.vertices[v].index == gpu) return int(v);
    return -1;
  }
  template <class Visit>  // visit(link, other end)
  void around(int vertex, Visit visit) const {
    for (const auto& link : machine.links)
      if (link.a == vertex || link.b == vertex) visit(link, link.a == vertex ? link.b : link.a);
  }
  [[nodiscard]] Kind kind(int vertex) const { return machine.vertices[std::size_t(vertex)].kind; }
  /// The PCIe switch or CPU that a device hangs on; -1 for none.
  [[nodiscard]] int parent(int vertex) const {
    int found = -1;
    around(vertex, [&](const MachineSpec::Link& link, int other) {
      if (link.kind != LinkKind::pcie && link.kind != LinkKind::c2c) return;
      if (kind(other) == Kind::pcie_switch || (kind(other) == Kind::cpu && found < 0)) found = other;
    });
    return found;
  }
  [[nodiscard]] int cpu_above(int vertex) const {
    std::set<int> seen;
    std::vector<int> front{vertex};
    while (!front.empty()) {
      const int v = front.back();
      front.pop_back();
      if (v < 0 || !seen.insert(v).second) continue;
      if (kind(v) == Kind::cpu) return v;
      around(v, [&](const MachineSpec::Link& link, int other) {
        if (link.kind == LinkKind::pcie && (kind(other) == Kind::pcie_switch || kind(other) == Kind::cpu)) front.push_back(other);
      });
    }
    return -1;
  }
};

void read_nvlink(const Reader& r, const std::vector<int>& vertices, NodeWiring& out) {
  const auto n = vertices.size();
  out.bricks.assign(n, std::vector<int>(n, 0));
  double least = -1;
  for (std::size_t i = 0; i < n; ++i) {
    double to_switch = 0, direct = 0;
    r.around(vertices[i], [&](const MachineSpec::Link& link, int other) {
      if (link.kind != LinkKind::nvlink) return;
      if (r.kind(other) == Kind::nvswitch) to_switch += link.nccl_rate.value() / kGiga;
      const auto peer = std::find(vertices.begin(), vertices.end(), other);
      if (peer == vertices.end()) return;
      out.bricks[i][std::size_t(peer - vertices.begin())] += link.count;
      out.brick = link.nccl_rate.value() / kGiga / link.count;
      direct += link.nccl_rate.value() / kGiga;
    });
    if (to_switch > 0) out.nvswitch = true;
    const double all = to_switch > 0 ? to_switch : direct;
    least = least < 0 ? all : std::min(least, all);
  }
  out.nvlink = std::max(least, 0.0);
}

void read_nics(const Reader& r, const std::vector<int>& vertices, const std::set<int>& parents, NodeWiring& out) {
  const auto& all = r.machine.vertices;
  std::set<int> with_nic;
  for (std::size_t v = 0; v < all.size(); ++v) {
    if (all[v].kind != Kind::nic) continue;
    const int parent = r.parent(int(v));
    if (parents.contains(parent)) ++out.nics;
    with_nic.insert(parent);
  }
  for (const int v : vertices) {
    const int parent = r.parent(v);
    out.nic_elsewhere |= !with_nic.contains(parent);
    int mates = 0, mates_in_group = 0;
    for (std::size_t u = 0; u < all.size(); ++u) {
      if (all[u].kind != Kind::gpu || int(u) == v || r.parent(int(u)) != parent) continue;
      ++mates;
      mates_in_group += std::find(vertices.begin(), vertices.end(), int(u)) != vertices.end();
    }
    out.lone_gpus += mates > 0 && mates_in_group == 0;
  }
  if (out.nics == 0 && out.nic_elsewhere) out.nics = r.machine.nics;
  out.nic = r.machine.nic.rate.value() / kGiga;
}

}  // namespace

NodeWiring wiring_of(const MachineSpec& machine, std::span<const int> gpus) {
  const Reader r{machine};
  NodeWiring out;
  out.gpus = int(gpus.size());
  std::vector<int> vertices;
  for (const int g : gpus) vertices.push_back(r.gpu_vertex(g));
  read_nvlink(r, vertices, out);

  std::set<int> parents, cpus;
  double pcie = -1;
  for (const int v : vertices) {
    parents.insert(r.parent(v));
    cpus.insert(r.cpu_above(v));
    r.around(v, [&](const MachineSpec::Link& link, int) {
      if (link.kind != LinkKind::pcie) return;
      const double rate = link.nccl_rate.value() / kGiga;
      pcie = pcie < 0 ? rate : std::min(pcie, rate);
    });
  }
  out.pcie = std::max(pcie, 0.0);
  out.one_pcie_switch = parents.size() == 1 && *parents.begin() >= 0 && r.kind(*parents.begin()) == Kind::pcie_switch;
  if (cpus.size() > 1)
    for (const auto& link : machine.links)
      if (link.kind == LinkKind::socket) out.socket = std::max(out.socket, link.nccl_rate.value() / kGiga);
  read_nics(r, vertices, parents, out);
  return out;
}

}  // namespace rehearse::nccl
