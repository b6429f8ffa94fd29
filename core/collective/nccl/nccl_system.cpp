#include "core/collective/nccl/nccl_system.hpp"

#include <algorithm>
#include <map>

#include "core/base/index.hpp"
#include "core/collective/nccl/pcie_tree.hpp"

namespace rehearse::nccl {
namespace {

using NcclSystemKind = MachineSpec::VertexKind;
using NcclSystemLinkKind = MachineSpec::LinkKind;

float gigabytes(BytesPerSecond r) { return static_cast<float>(r.value() / 1e9); }

class Assembly {
 public:
  Assembly(const MachineSpec& m, const GpuSpec& gpu, std::span<const int> gpus)
      : m_(m), tree_(pcie_tree_of(m)), wanted_(gpus), node_of_(m.vertices.size(), -1) {
    out_.compute_capability = gpu.compute_capability;
    out_.hosts = tree_.hosts;
    out_.intel = m.cpu_vendor == "intel";
    out_.amd = m.cpu_vendor == "amd";
    out_.power = m.cpu_vendor == "power";
    out_.peer_to_peer = m.peer_to_peer;
    out_.gpudirect = m.gpudirect_rdma;
  }

  System run() {
    for (const int cpu : tree_.roots) plant(cpu);
    for (int v = 0; v < int(m_.vertices.size()); ++v)  // GPUs that hang on NVLink or C2C alone
      if (m_.vertices[std::size_t(v)].kind == NcclSystemKind::gpu && !numbered_.contains(v)) add_gpu(v);
    add_nvlinks();
    add_c2c();
    join_sockets();
    for (const int cpu : out_.all(NodeKind::cpu)) put_uplinks_last(cpu, -1);
    pair_links();
    return std::move(out_);
  }

 private:
  int add(NodeKind kind, int vertex) {
    const int v = int(out_.nodes.size());
    out_.nodes.push_back({kind, vertex < 0 ? 0 : tree_.host[std::size_t(vertex)], 0, 0, {}});
    nth(out_.by_kind, kind).push_back(v);
    if (vertex >= 0) node_of_[std::size_t(vertex)] = v;
    return v;
  }

  int add_gpu(int vertex) {
    const int number = gpus_on_host_[tree_.host[std::size_t(vertex)]]++;
    numbered_[vertex] = number;
    const auto at = std::find(wanted_.begin(), wanted_.end(), m_.vertices[std::size_t(vertex)].index);
    if (at == wanted_.end()) return -1;
    const int v = add(NodeKind::gpu, vertex);
    out_.nodes.back().number = number;
    out_.members.push_back(int(at - wanted_.begin()));
    return v;
  }

  int add_nic(int vertex) {
    const int card = add(NodeKind::nic, vertex);
    const int port = add(NodeKind::net, -1);
    out_.nodes.back().rate = gigabytes(m_.nic.rate);
    out_.nodes.back().host = out_.nodes[std::size_t(card)].host;
    connect(card, port, PathClass::net, out_.nodes.back().rate);
    connect(port, card, PathClass::net, out_.nodes.back().rate);
    return card;
  }

  int plant(int vertex) {
    switch (m_.vertices[std::size_t(vertex)].kind) {
      case NcclSystemKind::gpu: return add_gpu(vertex);
      case NcclSystemKind::nic: return add_nic(vertex);
      case NcclSystemKind::nvswitch: return -1;
      case NcclSystemKind::cpu:
      case NcclSystemKind::pcie_switch: break;
    }
    const int v =
        add(m_.vertices[std::size_t(vertex)].kind == NcclSystemKind::cpu ? NodeKind::cpu : NodeKind::pci, vertex);
    for (const auto& c : tree_.children[std::size_t(vertex)]) {
      const int child = plant(c.vertex);
      if (child < 0) continue;
      const float rate = gigabytes(m_.links[std::size_t(c.link)].nccl_rate);
      connect(child, v, PathClass::pix, rate);
      connect(v, child, PathClass::pix, rate);
    }
    return v;
  }

  /// NVLinks of one GPU, to other GPUs by their order, then to CPUs, then to the NVSwitch: all chips are one vertex.
  void add_nvlinks() {
    for (const int g : std::vector<int>(out_.all(NodeKind::gpu))) {
      for (const bool to_gpu : {true, false}) {
        std::vector<std::pair<int, float>> ends;
        for (const auto& l : m_.links)
          if (l.kind == NcclSystemLinkKind::nvlink) collect(l, g, to_gpu, ends);
        std::sort(ends.begin(), ends.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
        for (const auto& [other, rate] : ends) {
          connect(g, other, PathClass::nvlink, rate);
          if (!to_gpu) connect(other, g, PathClass::nvlink, rate);
        }
      }
    }
  }

  void collect(const MachineSpec::Link& l, int g, bool to_gpu, std::vector<std::pair<int, float>>& ends) {
    const int a = node_of_[std::size_t(l.a)], b = node_of_[std::size_t(l.b)];
    if (a != g && b != g) return;
    const int far = a == g ? l.b : l.a;
    int other = node_of_[std::size_t(far)];
    const bool far_gpu = m_.vertices[std::size_t(far)].kind == NcclSystemKind::gpu;
    if (m_.vertices[std::size_t(far)].kind == NcclSystemKind::nvswitch) other = the_nvswitch();
    if (far_gpu != to_gpu || other < 0) return;
    const float brick = gigabytes(l.nccl_rate / double(l.count));
    ends.emplace_back(other, static_cast<float>(l.count) * brick);
  }

  int the_nvswitch() {
    if (out_.count(NodeKind::nvs) == 0) add(NodeKind::nvs, -1);
    return out_.at(NodeKind::nvs, 0);
  }

  void add_c2c() {
    for (const auto& l : m_.links) {
      const int a = node_of_[std::size_t(l.a)], b = node_of_[std::size_t(l.b)];
      if (l.kind != NcclSystemLinkKind::c2c || a < 0 || b < 0) continue;
      connect(a, b, PathClass::c2c, gigabytes(l.nccl_rate));
      connect(b, a, PathClass::c2c, gigabytes(l.nccl_rate));
    }
  }

  /// NCCL joins every pair of CPUs of a host, at the rate of their vendor and model.
  void join_sockets() {
    BytesPerSecond rate;
    for (const auto& l : m_.links)
      if (l.kind == NcclSystemLinkKind::socket) rate = max(rate, l.nccl_rate);
    for (const int a : out_.all(NodeKind::cpu))
      for (const int b : out_.all(NodeKind::cpu))
        if (a != b && out_.node(a).host == out_.node(b).host) connect(a, b, PathClass::sys, gigabytes(rate));
  }

  /// Parallel links add up; a vertex's links stay sorted by rate, equals in the order of arrival.
  void connect(int from, int to, PathClass kind, float rate) {
    auto& links = out_.nodes[std::size_t(from)].links;
    const auto same = [&](int l) { return out_.link(l).to == to && out_.link(l).kind == kind; };
    auto at = std::find_if(links.begin(), links.end(), same);
    if (at == links.end()) {
      links.push_back(int(out_.links.size()));
      out_.links.push_back({from, to, kind, 0});
      at = links.end() - 1;
    }
    out_.links[std::size_t(*at)].rate += rate;
    for (; at != links.begin() && out_.link(*(at - 1)).rate < out_.link(*at).rate; --at) std::iter_swap(at, at - 1);
  }

  void put_uplinks_last(int v, int up) {
    auto& links = out_.nodes[std::size_t(v)].links;
    if (up >= 0) {
      const auto at = std::find_if(links.begin(), links.end(), [&](int l) { return out_.link(l).to == up; });
      std::rotate(at, at + 1, links.end());
    }
    for (const int l : links)
      if (out_.link(l).kind == PathClass::pix && out_.link(l).to != up) put_uplinks_last(out_.link(l).to, v);
  }

  void pair_links() {
    for (auto& l : out_.links)
      for (const int r : out_.nodes[std::size_t(l.to)].links)
        if (l.reverse < 0 && out_.link(r).to == l.from && out_.link(r).kind == l.kind) l.reverse = r;
  }

  const MachineSpec& m_;
  PcieTree tree_;
  std::span<const int> wanted_;
  std::vector<int> node_of_;
  std::map<int, int> gpus_on_host_, numbered_;
  System out_;
};

}  // namespace

System system_of(const MachineSpec& machine, const GpuSpec& gpu, std::span<const int> gpus) {
  return Assembly(machine, gpu, gpus).run();
}

}  // namespace rehearse::nccl
