#include "core/collective/nccl_search.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "core/collective/nccl_constants.hpp"
#include "core/collective/node_wiring.hpp"
#include "core/units/error.hpp"

namespace rehearse::nccl {
namespace {

using constants::kGiga;
using Speeds = std::span<const double>;

constexpr double kIntra[]{40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3};
constexpr double kIntra90[]{60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3};
constexpr double kIntra100[]{90, 80, 70, 60, 50, 40, 30, 24, 20, 19, 18};
constexpr double kInter[]{48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, .24, .12};
constexpr double kInter90[]{48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, .24, .12};
constexpr double kInter100[]{96, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, .24, .12};

constexpr int kMaxRings = 32;
constexpr double kStopDescending = 0.49;  // a speed below this share of the best so far is not tried
constexpr double kDoubleAbove = 25;       // channels at least this fast are doubled at half the speed ...
constexpr double kKeepBelow = 50;         // ... but on Hopper and later not these, when there are more than
constexpr int kKeepChannels = 4;
constexpr double kChainSpare = 0.97;      // chains of 3 or 4 GPUs are found when this share of NVLink is enough

Speeds speeds(int cc, bool leaves_node) {
  if (leaves_node) return cc >= 100 ? Speeds(kInter100) : cc >= 90 ? Speeds(kInter90) : Speeds(kInter);
  return cc >= 100 ? Speeds(kIntra100) : cc >= 90 ? Speeds(kIntra90) : Speeds(kIntra);
}

double largest(Speeds table, double limit) {
  for (const double s : table)
    if (s <= limit * (1 + 1e-9)) return s;
  return table.back();
}

int whole(double x) { return int(std::floor(x * (1 + 1e-9))); }

GraphResult graph(int channels, double intra, double inter, PathClass inside, PathClass outside, bool same) {
  return {channels, BytesPerSecond{intra * kGiga}, BytesPerSecond{inter * kGiga}, inside, outside, same};
}

struct Found { int channels = 0; double speed = 0; };

Found best_split(Speeds table, double total, int limit) {
  Found best;
  for (const double s : table) {
    if (best.channels > 0 && s / best.speed <= kStopDescending) break;
    const int channels = std::min(whole(total / s), limit);
    if (channels * s > best.channels * best.speed) best = {channels, s};
  }
  return best;
}

Found doubled(Found f, int cc) {
  if (f.speed < kDoubleAbove || (cc > 80 && f.speed < kKeepBelow && f.channels > kKeepChannels)) return f;
  const int channels = std::min(2 * f.channels, kMaxRings);
  return {channels, f.speed / std::ceil(double(channels) / f.channels)};
}

/// Several GPUs on an NVSwitch.
SearchResult inside_nvswitch(const NodeWiring& w, int cc) {
  const Speeds table = speeds(cc, false);
  const Found ring = doubled(best_split(table, w.nvlink, kMaxRings), cc);
  const double share = w.gpus == 2 ? 2.0 : w.gpus <= 4 ? kChainSpare * w.gpus / (w.gpus - 1) : 1.0;
  const double tree = largest(table, share * w.nvlink / ring.channels);
  SearchResult out;
  out.ring = graph(ring.channels, ring.speed, ring.speed, PathClass::nvlink, PathClass::pix, true);
  out.tree = graph(ring.channels, tree, tree, PathClass::nvlink, PathClass::pix, tree <= ring.speed);
  if (cc >= 100 && (w.gpus == 3 || w.gpus == 4)) out.tree_pattern = TreePattern::chain;
  return out;
}

/// GPUs joined by direct NVLinks.
SearchResult inside_mesh(const NodeWiring& w) {
  const int rings = int(pack_rings(w.bricks).size());
  SearchResult out;
  out.ring = out.tree = graph(rings, w.brick, w.brick, PathClass::nvlink, PathClass::pix, rings == 1);
  return out;
}

/// Anything else: one channel at the speed of the slowest hop.
SearchResult inside_pcie(const NodeWiring& w, int cc, bool intel) {
  const bool over_cpu = !w.one_pcie_switch;
  double limit = over_cpu && intel ? w.pcie / 1.2 : w.pcie;
  if (w.socket > 0) limit = std::min(limit, w.socket);
  const double s = largest(speeds(cc, false), limit);
  const auto path = w.socket > 0 ? PathClass::sys : over_cpu ? PathClass::phb : PathClass::pix;
  SearchResult out;
  out.ring = out.tree = graph(1, s, s, path, PathClass::pix, true);
  return out;
}

double nvlink_share(const NodeWiring& w, int channels) {
  if (w.gpus < 2 || channels == 0) return 1e9;
  return w.nvlink * w.gpus / (w.gpus - 1) / channels;
}

/// Several nodes, NVLink (or one GPU) inside.
SearchResult across_nodes(const NodeWiring& w, int cc) {
  const Speeds table = speeds(cc, true);
  const bool lone = w.lone_gpus > 0;
  // Before Ampere a GPU that both sends to and receives from its NIC loses an eighth of its slot (graph/topo.cc).
  double slot = w.pcie;
  if (cc < 80 && (lone || w.gpus == 1)) slot = slot * 8 / 9;
  const double speed = largest(table, std::min(w.nic, slot));
  const int nics = std::clamp(whole(w.gpus * w.pcie / speed), 1, std::max(w.nics, 1));
  const Found ring = doubled({std::min(nics, kMaxRings), speed}, cc);

  const bool staged = w.nic_elsewhere;
  const bool sideways = cc < 90 && lone && w.gpus > 1;
  const auto inside = w.gpus == 1 ? PathClass::local : PathClass::nvlink;
  const auto far = staged ? PathClass::phb : PathClass::pix;
  double tree_inter = ring.speed;
  if (sideways && (w.gpus >= 6 || (w.gpus >= 4 && w.lone_gpus >= 3))) tree_inter /= 2;
  double tree_intra = largest(table, std::min(2 * tree_inter, nvlink_share(w, ring.channels)));
  if (w.bricks.size() > 1 && !w.nvswitch) tree_intra = std::min(tree_intra, std::max(w.brick, tree_inter));

  SearchResult out;
  out.ring = graph(ring.channels, ring.speed, ring.speed, inside,
                   std::max(far, w.gpus > 1 && (lone || cc >= 90) ? PathClass::pxn : PathClass::pix), w.gpus == 1);
  out.tree = graph(ring.channels, tree_intra, tree_inter, inside,
                   sideways && tree_inter == ring.speed ? PathClass::phb : far, w.gpus == 1);
  out.tree_pattern = w.gpus == 1 || cc >= 90 ? TreePattern::chain : TreePattern::balanced;
  return out;
}

/// Several nodes, PCIe inside: a ring also pays the slowest hop of its node.
SearchResult across_pcie_nodes(const NodeWiring& w, int cc, bool intel) {
  const SearchResult node = inside_pcie(w, cc, intel);
  const double limit = std::min(node.ring.intra.value() / kGiga, w.nic);
  const double s = largest(speeds(cc, true), limit);
  const auto outside = std::max(node.ring.intra_path, w.nic_elsewhere ? PathClass::phb : PathClass::pix);
  SearchResult out;
  out.ring = out.tree = graph(1, s, s, node.ring.intra_path, outside, true);
  return out;
}

GraphResult nvls_of(const NodeWiring& w, int cc, bool leaves_node) {
  const Speeds table = speeds(cc, leaves_node);
  const double wire = leaves_node ? std::min(w.nic, w.pcie > 0 ? w.pcie : w.nic) : w.nvlink;
  const double intra = largest(table, std::min(wire, w.nvlink / (w.gpus + 1)));
  const double inter = leaves_node ? largest(table, std::min(wire, 2 * intra)) : table.front();
  return graph(std::min(w.gpus, kMaxRings), intra, inter, PathClass::nvlink, PathClass::pix, false);
}

GraphResult slower(const GraphResult& a, const GraphResult& b) {
  return {std::min(a.channels, b.channels), min(a.intra, b.intra), min(a.inter, b.inter),
          std::max(a.intra_path, b.intra_path), std::max(a.inter_path, b.inter_path), a.same_channels && b.same_channels};
}

}  // namespace

CpuVendor cpu_vendor_of(const MachineSpec& machine) {
  return machine.cpu_vendor == "intel" ? CpuVendor::intel : machine.cpu_vendor == "amd" ? CpuVendor::amd : CpuVendor::other;
}

SearchResult search_node(const MachineSpec& machine, const GpuSpec& gpu, std::span<const int> gpus, bool leaves_node) {
  const NodeWiring w = wiring_of(machine, gpus);
  const int cc = gpu.compute_capability;
  const bool intel = cpu_vendor_of(machine) == CpuVendor::intel;
  const bool joined = w.nvswitch || w.gpus == 1 || !pack_rings(w.bricks).empty();
  SearchResult out = leaves_node ? (joined ? across_nodes(w, cc) : across_pcie_nodes(w, cc, intel))
                     : !joined   ? inside_pcie(w, cc, intel)
                     : w.nvswitch ? inside_nvswitch(w, cc)
                                  : inside_mesh(w);
  if (machine.nvls && w.nvswitch && w.gpus > 1 && cc >= 90) out.nvls = nvls_of(w, cc, leaves_node);
  return out;
}

SearchResult agree(const SearchResult& a, const SearchResult& b) {
  return {slower(a.ring, b.ring), slower(a.tree, b.tree), slower(a.nvls, b.nvls), std::max(a.tree_pattern, b.tree_pattern)};
}

SearchResult search(const Cluster& cluster, std::span<const DeviceId> group) {
  if (group.empty()) throw Error(ErrorKind::usage, "a communicator needs at least one device", "collective group");
  std::map<NodeId, std::vector<int>> by_node;
  for (const DeviceId d : group) by_node[cluster.node_of(d)].push_back(cluster.local_index(d));
  std::map<std::pair<const MachineSpec*, std::vector<int>>, SearchResult> seen;
  for (auto& [node, gpus] : by_node) {
    std::sort(gpus.begin(), gpus.end());
    const std::pair key{&cluster.machine(node), gpus};
    if (!seen.contains(key))
      seen.emplace(key, search_node(*key.first, cluster.gpu(cluster.first_device(node)), gpus, by_node.size() > 1));
  }
  SearchResult out = seen.begin()->second;
  for (const auto& [key, result] : seen) out = agree(out, result);
  return out;
}

std::vector<std::vector<int>> node_rings(const MachineSpec& machine, std::span<const int> gpus) {
  const NodeWiring w = wiring_of(machine, gpus);
  auto rings = w.nvswitch ? std::vector<std::vector<int>>{} : pack_rings(w.bricks);
  if (rings.empty()) {
    rings.emplace_back(gpus.size());
    std::iota(rings.back().begin(), rings.back().end(), 0);
  }
  return rings;
}

}  // namespace rehearse::nccl
