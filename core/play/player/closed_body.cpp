#include <algorithm>
#include <variant>
#include <vector>

#include "core/base/index.hpp"
#include "core/play/player/compiled_role.hpp"
#include "core/price/cost_model.hpp"
#include "core/program/body.hpp"

namespace rehearse {

bool is_closed(const Program& p, const Cluster& cluster, const Body& body, int rank) {
  std::vector<int> groups;
  for (const auto v : body.graph.vertices()) {
    const Task& task = body.graph[v];
    if (task.host_wait) return false;
    if (std::holds_alternative<ComputeTask>(task.kind)) continue;
    const auto* c = std::get_if<CollectiveTask>(&task.kind);
    if (c == nullptr) return false;
    if (category_of_stream(p, task.stream) == TimeCategory::exposed_dp) return false;
    if (std::find(groups.begin(), groups.end(), c->group) == groups.end()) groups.push_back(c->group);
  }
  // Ranks that meet in the body, if only by way of others, take it as one piece together or not at all.
  const auto node = [&](int r) { return cluster.node_of(nth(p.device_of_rank, r)); };
  std::vector<int> met{rank};
  for (std::size_t i = 0; i < met.size(); ++i) {
    for (const int group : groups) {
      for (const int r : p.mesh.members(nth(p.groups, group), met[i], p.exprs)) {
        if (node(r) != node(rank)) return false;
        if (std::find(met.begin(), met.end(), r) == met.end()) met.push_back(r);
      }
    }
    if (groups.size() < 2) break;  // Groups of one family share no ranks.
  }
  return true;
}

}  // namespace rehearse
