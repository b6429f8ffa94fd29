#include "core/price/stage_memory.hpp"

#include <algorithm>
#include <map>

#include "core/base/index.hpp"

namespace rehearse {

Bytes StageMemory::host_bytes() const {
  const auto& by = memory.peak_by_space;
  return nth(by, MemorySpace::host) + nth(by, MemorySpace::pinned_host);
}

bool MemoryReport::fits() const {
  return std::all_of(stages.begin(), stages.end(), [](const StageMemory& s) { return s.fits(); });
}

const StageMemory& MemoryReport::tightest() const {
  return *std::max_element(stages.begin(), stages.end(), [](const StageMemory& a, const StageMemory& b) {
    return a.needed - a.capacity < b.needed - b.capacity;
  });
}

namespace {

/// What the ranks of each node keep in host memory. Every rank counts as its role's worst does.
std::map<NodeId, Bytes> host_memory_by_node(const Program& program, const Cluster& cluster,
                                            const MemoryReport& report) {
  std::map<NodeId, Bytes> out;
  for (std::size_t r = 0; r < program.role_of_rank.size(); ++r)
    for (const StageMemory& s : report.stages)
      if (s.memory.role == program.role_of_rank[r]) out[cluster.node_of(program.device_of_rank[r])] += s.host_bytes();
  return out;
}

}  // namespace

MemoryReport memory_report(const Program& program, const Cluster& cluster, const MemoryRule& rule) {
  MemoryReport report{rule, {}, {}};
  for (RoleMemory& memory : rule.peaks(program)) {
    StageMemory s;
    s.stage = nth(program.mesh.context(memory.rank).coord, Axis::pp);
    s.allocated = rule.allocated(memory);
    s.reserved = rule.reserved(memory);
    s.needed = rule.needed(memory);
    s.capacity = cluster.gpu(nth(program.device_of_rank, memory.rank)).usable_memory;
    for (std::size_t r = 0; r < program.role_of_rank.size() && cluster.parts().size() > 1; ++r)
      if (program.role_of_rank[r] == memory.role)
        s.capacity = min(s.capacity, cluster.gpu(program.device_of_rank[r]).usable_memory);
    s.memory = std::move(memory);
    report.stages.push_back(std::move(s));
  }
  const std::map<NodeId, Bytes> hosts = host_memory_by_node(program, cluster, report);
  for (StageMemory& s : report.stages) {
    const NodeId node = cluster.node_of(nth(program.device_of_rank, s.memory.rank));
    s.host_needed = hosts.at(node);
    s.host_capacity = cluster.machine(node).host_memory;
  }
  return report;
}

}  // namespace rehearse
