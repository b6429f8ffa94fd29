#include "core/cluster/machine_routes.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/cluster/machine_search.hpp"

namespace rehearse {
namespace {

using MachineRoutesKind = MachineSpec::VertexKind;
using Links = std::vector<int>;
using PathTo = std::vector<std::optional<FoundPath>>;

Error unreachable(const MachineSpec& machine, int gpu, const std::string& what) {
  return {ErrorKind::usage, fmt::format("machine '{}': GPU{} has no path to {}", machine.id, gpu, what),
          "machine.links", "check the machine's wiring"};
}

Links reversed(const Links& links) {
  Links back(links.rbegin(), links.rend());
  for (int& link : back) link ^= 1;
  return back;
}

Links joined(Links first, const Links& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// Searches of one machine: by GPU over both media, and by CPU over the host's.
struct Searches {
  std::vector<int> gpus, nics;
  std::vector<PathTo> nvlink, host;
  std::vector<PathTo> by_vertex;  ///< From CPUs; empty for other vertices.

  explicit Searches(const MachineSpec& machine) : by_vertex(machine.vertices.size()) {
    for (int v = 0; v < static_cast<int>(machine.vertices.size()); ++v) {
      MachineRoutesKind kind = machine.vertices[v].kind;
      if (kind == MachineRoutesKind::nic) nics.push_back(v);
      if (kind == MachineRoutesKind::cpu) by_vertex[v] = search_paths(machine, v, Medium::host);
      if (kind != MachineRoutesKind::gpu) continue;
      gpus.push_back(v);
      nvlink.push_back(search_paths(machine, v, Medium::nvlink));
      host.push_back(search_paths(machine, v, Medium::host));
    }
  }

  /// The CPU whose memory a GPU stages in; -1 where it reaches none.
  [[nodiscard]] int host_of(int gpu) const {
    int best = -1;
    for (int v = 0; v < static_cast<int>(by_vertex.size()); ++v) {
      if (by_vertex[v].empty() || !host[gpu][v]) continue;
      if (best < 0 || host[gpu][v]->cost < host[gpu][best]->cost) best = v;
    }
    return best;
  }

  /// From a GPU through its host's memory to a vertex.
  [[nodiscard]] std::optional<Links> staged(int gpu, int to) const {
    int cpu = host_of(gpu);
    if (cpu < 0 || !by_vertex[cpu][to]) return std::nullopt;
    return joined(host[gpu][cpu]->links, by_vertex[cpu][to]->links);
  }
};

std::optional<Links> gpu_path(const MachineSpec& machine, const Searches& found, int a, int b) {
  int to = found.gpus[b];
  if (!machine.peer_to_peer) return found.staged(a, to);
  if (found.nvlink[a][to]) return found.nvlink[a][to]->links;
  if (found.host[a][to]) return found.host[a][to]->links;
  return std::nullopt;
}

std::vector<int> deal_nics(const MachineSpec& machine, const Searches& found) {
  std::vector<int> chosen(found.gpus.size(), -1);
  std::vector<int> users(found.nics.size(), 0);
  for (std::size_t gpu = 0; gpu < chosen.size() && !found.nics.empty(); ++gpu) {
    const PathTo& paths = found.host[gpu];
    int best = -1;
    for (int nic = 0; nic < static_cast<int>(found.nics.size()); ++nic) {
      const auto& path = paths[found.nics[nic]];
      if (!path) continue;
      if (best < 0) {
        best = nic;
        continue;
      }
      const PathCost& champion = paths[found.nics[best]]->cost;
      if (path->cost.as_near_as(champion) ? users[nic] < users[best] : path->cost < champion) best = nic;
    }
    if (best < 0) throw unreachable(machine, static_cast<int>(gpu), "a NIC");
    ++users[best];
    chosen[gpu] = best;
  }
  return chosen;
}

}  // namespace

MachineRoutes::Slice MachineRoutes::store(const MachineSpec& machine, const Links& links) {
  Slice slice{static_cast<int>(pool_.size()), static_cast<int>(links.size()), Seconds{}};
  for (int link : links) slice.latency += machine.links[link / 2].latency;
  pool_.insert(pool_.end(), links.begin(), links.end());
  return slice;
}

MachineRoutes::MachineRoutes(const MachineSpec& machine) : gpus_(machine.gpus), nics_(machine.nics) {
  Searches found(machine);
  paths_.resize(static_cast<std::size_t>(gpus_) * gpus_);
  std::vector<bool> by_nvlink(paths_.size(), false);
  for (int a = 0; a < gpus_; ++a) {
    for (int b = a + 1; b < gpus_; ++b) {
      auto links = gpu_path(machine, found, a, b);
      if (!links) throw unreachable(machine, a, fmt::format("GPU{}", b));
      paths_[a * gpus_ + b] = store(machine, *links);
      paths_[b * gpus_ + a] = store(machine, reversed(*links));
      by_nvlink[a * gpus_ + b] = by_nvlink[b * gpus_ + a] = machine.peer_to_peer && found.nvlink[a][found.gpus[b]];
    }
  }

  nic_of_ = deal_nics(machine, found);
  for (int gpu = 0; gpu < gpus_ && nics_ > 0; ++gpu) {
    int nic = found.nics[nic_of_[gpu]];
    std::optional<Links> links = found.host[gpu][nic]->links;
    if (!machine.gpudirect_rdma) links = found.staged(gpu, nic);
    if (!links) throw unreachable(machine, gpu, "a host to stage its messages in");
    to_nic_.push_back(store(machine, *links));
    from_nic_.push_back(store(machine, reversed(*links)));
  }
  choose_relays(machine, by_nvlink);
}

void MachineRoutes::choose_relays(const MachineSpec& machine, const std::vector<bool>& by_nvlink) {
  relay_.assign(static_cast<std::size_t>(gpus_) * nics_, -1);
  auto width = [&](int a, int b) {
    double narrowest = 0;
    for (int link : between(a, b).links) {
      double rate = machine.links[link / 2].rate.value();
      narrowest = narrowest == 0 ? rate : std::min(narrowest, rate);
    }
    return narrowest;
  };
  for (int gpu = 0; gpu < gpus_; ++gpu)
    for (int other = 0; other < gpus_ && nics_ > 0; ++other) {
      if (!by_nvlink[gpu * gpus_ + other] || nic_of_[other] == nic_of_[gpu]) continue;
      int& relay = relay_[gpu * nics_ + nic_of_[other]];
      if (relay < 0 || width(gpu, other) > width(gpu, relay)) relay = other;
    }
}

}  // namespace rehearse
