#include "core/collective/nccl/nccl_search.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "core/base/error.hpp"
#include "core/collective/nccl/graph_passes.hpp"
#include "core/collective/nccl/numberings.hpp"

namespace rehearse::nccl {
namespace {

GraphResult result_of(const Graph& g) {
  // The speeds are decimals in NCCL's tables: 17.5 and 2.4 stand for themselves here, not for the nearest float.
  const auto rate = [](float gigabytes) { return BytesPerSecond{std::round(double(gigabytes) * 1e6) * 1e3}; };
  return {g.channels, rate(g.intra), rate(g.inter), g.intra_kind, g.inter_kind, g.same_channels};
}

/// What rings find where slower speeds are tried. From compute capability 10 on none below 18 GB/s is, which cards
/// without peer access do not reach.
BytesPerSecond carried(System system, const Paths& paths, bool leaves_node) {
  constexpr int kTriesSlowest = 80;
  system.compute_capability = kTriesSlowest;
  const GraphResult ring = result_of(GraphPasses(system, paths, leaves_node).ring());
  return ring.intra == kNoPath ? BytesPerSecond{} : ring.intra * double(ring.channels);
}

SearchResult search_part(const System& system, const Paths& paths, bool leaves_node, bool multicast) {
  GraphPasses passes(system, paths, leaves_node);
  const Graph ring = passes.ring();
  const Graph tree = passes.tree(ring.channels);
  SearchResult out;
  out.ring = result_of(ring);
  out.tree = result_of(tree);
  out.tree_pattern = tree.pattern == Pattern::chain_tree ? TreePattern::chain : TreePattern::balanced;
  if (out.ring.intra == kNoPath) out.ring.carries = out.tree.carries = carried(system, paths, leaves_node);
  if (multicast && system.count(NodeKind::gpu) > 1) out.nvls = result_of(passes.nvls());
  return out;
}

SearchResult search_part(const System& system, const Paths& paths, bool leaves_node, bool multicast,
                         SystemSearches* known) {
  const auto search = [&] { return search_part(system, paths, leaves_node, multicast); };
  return known != nullptr ? known->of({system, leaves_node, multicast}, search) : search();
}

/// The GPUs of one machine in the parts that NCCL makes of them, as local indices.
std::vector<std::vector<int>> parts_of(const System& system, const Paths& paths, std::span<const int> gpus) {
  std::vector<std::vector<int>> out;
  for (const auto& domain : paths.domains()) {
    out.emplace_back();
    for (const int g : domain) out.back().push_back(gpus[std::size_t(system.members[std::size_t(g)])]);
  }
  return out;
}

GraphResult slower(const GraphResult& a, const GraphResult& b) {
  return {std::min(a.channels, b.channels),
          min(a.intra, b.intra),
          min(a.inter, b.inter),
          std::max(a.intra_path, b.intra_path),
          std::max(a.inter_path, b.inter_path),
          a.same_channels && b.same_channels,
          a.carries.value() == 0   ? b.carries
          : b.carries.value() == 0 ? a.carries
                                   : min(a.carries, b.carries)};
}

}  // namespace

CpuVendor cpu_vendor_of(const MachineSpec& machine) {
  return machine.cpu_vendor == "intel" ? CpuVendor::intel
         : machine.cpu_vendor == "amd" ? CpuVendor::amd
                                       : CpuVendor::other;
}

SearchResult SystemSearches::of(const Asked& asked, const std::function<SearchResult()>& search) {
  const std::scoped_lock lock(mutex_);
  const auto at = std::find_if(known_.begin(), known_.end(), [&](const auto& k) { return k.first == asked; });
  if (at != known_.end()) return at->second;
  return known_.emplace_back(asked, search()).second;
}

NodeSearch search_node(const MachineSpec& machine, const GpuSpec& gpu, std::span<const int> gpus, bool leaves_node,
                       SystemSearches* known) {
  if (gpus.empty()) throw Error(ErrorKind::usage, "a communicator needs at least one device", "collective group");
  const System whole = system_of(machine, gpu, gpus);
  const Paths paths(whole);
  const auto parts = parts_of(whole, paths, gpus);
  NodeSearch out;
  if (parts.size() <= 1) {
    static_cast<SearchResult&>(out) = search_part(whole, paths, leaves_node, machine.nvls, known);
    return out;
  }
  std::optional<SearchResult> agreed;
  for (const auto& part : parts) {
    const System system = system_of(machine, gpu, part);
    const auto found = search_part(system, Paths(system), true, machine.nvls, known);
    agreed = agreed ? agree(*agreed, found) : found;
  }
  static_cast<SearchResult&>(out) = *agreed;
  out.parts = int(parts.size());
  return out;
}

SearchResult agree(const SearchResult& a, const SearchResult& b) {
  return {slower(a.ring, b.ring), slower(a.tree, b.tree), slower(a.nvls, b.nvls),
          std::max(a.tree_pattern, b.tree_pattern)};
}

const NodeSearch& NodeSearches::of(const MachineSpec& machine, const GpuSpec& gpu, const std::vector<int>& gpus,
                                   bool leaves_node) {
  const auto [at, fresh] = known_.try_emplace({&machine, gpus, leaves_node});
  if (fresh) at->second = search_best_numbered(machine, gpu, gpus, leaves_node, systems_.get());
  return at->second;
}

GroupSearch search(const Cluster& cluster, std::span<const DeviceId> group) {
  NodeSearches known;
  return search(cluster, group, known);
}

GroupSearch search(const Cluster& cluster, std::span<const DeviceId> group, NodeSearches& known) {
  if (group.empty()) throw Error(ErrorKind::usage, "a communicator needs at least one device", "collective group");
  std::map<NodeId, std::vector<int>> by_node;
  for (const DeviceId d : group) by_node[cluster.node_of(d)].push_back(cluster.local_index(d));
  std::map<std::pair<const MachineSpec*, std::vector<int>>, const NodeSearch*> seen;
  GroupSearch out;
  out.nodes = 0;
  for (auto& [node, gpus] : by_node) {
    std::sort(gpus.begin(), gpus.end());
    const auto [at, fresh] = seen.try_emplace({&cluster.machine(node), gpus});
    if (fresh)
      at->second =
          &known.of(*at->first.first, cluster.gpu(cluster.first_device(node)), at->first.second, by_node.size() > 1);
    out.nodes += at->second->parts;
  }
  static_cast<SearchResult&>(out) = static_cast<const SearchResult&>(*seen.begin()->second);
  for (const auto& [key, result] : seen) static_cast<SearchResult&>(out) = agree(out, *result);
  return out;
}

RingOrders node_rings(const MachineSpec& machine, const GpuSpec& gpu, std::span<const int> gpus) {
  RingOrders rings(1, std::vector<int>(gpus.size()));
  std::iota(rings.back().begin(), rings.back().end(), 0);
  if (gpus.size() < 3 || all_on_nvswitch(machine, gpus)) return rings;
  const System system = system_of(machine, gpu, gpus);
  const Paths paths(system);
  const Graph found = GraphPasses(system, paths, false).ring();
  rings.assign(std::size_t(found.channels), {});
  for (int c = 0; c < found.channels; ++c)
    for (std::size_t i = 0; i < gpus.size(); ++i)
      rings[std::size_t(c)].push_back(system.members[std::size_t(found.order[std::size_t(c) * gpus.size() + i])]);
  return rings;
}

const RingOrders& NodeRings::of(const MachineSpec& machine, const GpuSpec& gpu, std::span<const int> gpus) const {
  const std::scoped_lock lock(mutex_);
  std::pair key{&machine, std::vector<int>(gpus.begin(), gpus.end())};
  auto at = known_.find(key);
  if (at == known_.end()) at = known_.emplace(std::move(key), node_rings(machine, gpu, gpus)).first;
  return at->second;
}

}  // namespace rehearse::nccl
