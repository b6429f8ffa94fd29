#include "core/price/memory_rule.hpp"

#include <algorithm>
#include <set>

#include "core/base/index.hpp"
#include "core/program/body.hpp"

namespace rehearse {

MemoryRule::MemoryRule(const Cluster& cluster) {
  constexpr double kChannelsOverPcie = 4, kChannelsOverNvlink = 24;
  const bool nvlink = std::any_of(cluster.parts().begin(), cluster.parts().end(),
                                  [](const Cluster::Part& part) { return part.gpu->nvlink.has_value(); });
  if (!nvlink) communicator = communicator * (kChannelsOverPcie / kChannelsOverNvlink);
}

Bytes MemoryRule::allocated(const RoleMemory& memory) const {
  return memory.peak - nth(memory.by_category, MemoryCategory::framework);
}

Bytes MemoryRule::reserved(const RoleMemory& memory) const {
  return allocated(memory) * reserved_over_allocated + memory.cached;
}

Bytes MemoryRule::needed(const RoleMemory& memory) const {
  return reserved(memory) + nth(memory.by_category, MemoryCategory::framework);
}

Bytes MemoryRule::outside(const Program& program, int rank) const {
  std::set<std::vector<int>> groups;
  for (const GroupSpec& group : program.groups) {
    std::vector<int> members = program.mesh.members(group, rank, program.exprs);
    if (members.size() > 1) groups.insert(std::move(members));
  }
  return context + communicator * static_cast<double>(groups.size());
}

std::vector<RoleMemory> MemoryRule::peaks(const Program& program) const {
  std::vector<RoleMemory> out = peak_memory(program, workspace, Bytes{0});
  for (RoleMemory& memory : out) {
    const Bytes more = outside(program, memory.rank);
    nth(memory.by_category, MemoryCategory::framework) = more;
    nth(memory.peak_by_space, MemorySpace::device) += more;
    memory.peak += more;
    memory.cached = cached_blocks(program, nth(program.roles, memory.role), memory.rank);
  }
  return out;
}

Bytes cached_blocks(const Program& program, const Role& role, int rank) {
  const ExprContext at = program.mesh.context(rank);
  std::set<std::int32_t> bodies;
  for (const Entry& e : role.step) bodies.insert(e.body);
  Bytes most;
  for (const std::int32_t body : bodies)
    for (const Formal& formal : nth(program.bodies, body).formals)
      if (const Tensor& t = nth(program.tensors, formal.like); t.role == TensorRole::logits_gradient)
        most = max(most, Bytes{program.local_bytes(t, at) / 2});
  return most;
}

}  // namespace rehearse
