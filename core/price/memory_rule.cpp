#include "core/price/memory_rule.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

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

namespace {

/// A group of all ranks that differ along its axes, as strides and extents; axes that follow each other are one. Groups
/// of one rank are equal where these are.
std::vector<int> box_of(const Island& island, const GroupSpec& group) {
  std::vector<int> out;
  for (const auto& [axis, extent] : group.view == View::dense ? island.order : island.expert_order) {
    const Island::Wheel wheel = island.wheel(axis);
    if (!group.axes.contains(axis) || extent == 1) continue;
    if (!out.empty() && out[out.size() - 2] * out.back() == wheel.stride)
      out.back() *= extent;
    else
      out.insert(out.end(), {wheel.stride, extent});
  }
  return out;
}

}  // namespace

Bytes MemoryRule::outside(const Program& program, int rank) const {
  const Mesh& mesh = program.mesh;
  const auto members_of = [&](const GroupSpec& group) { return mesh.members(group, rank, program.exprs); };
  std::map<std::vector<int>, const GroupSpec*> boxes;
  std::set<std::vector<int>> others;
  for (const GroupSpec& group : program.groups) {
    const bool whole = group.only.empty() && group.color == ExprPool::kZero && mesh.islands().size() == 1;
    if (!whole)
      others.insert(members_of(group));
    else if (std::vector<int> box = box_of(mesh.islands().front(), group); !box.empty())
      boxes.try_emplace(std::move(box), &group);
  }
  std::erase_if(others, [&](const std::vector<int>& members) {
    return members.size() < 2 || std::any_of(boxes.begin(), boxes.end(), [&](const auto& box) {
             return mesh.group_size(*box.second, rank, program.exprs) == static_cast<int>(members.size()) &&
                    members_of(*box.second) == members;
           });
  });
  return context + communicator * static_cast<double>(boxes.size() + others.size());
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
