#include "core/play/player/closed_body.hpp"

#include <algorithm>
#include <variant>

#include "core/base/index.hpp"
#include "core/price/body_play.hpp"
#include "core/program/body.hpp"

namespace rehearse {

namespace {

/// Groups that the body calls, in ascending order; nothing where it is never one piece of work.
std::optional<std::vector<int>> calls_of(const Program& p, const Body& body) {
  std::vector<int> out;
  for (const auto v : body.graph.vertices()) {
    const Task& task = body.graph[v];
    if (task.host_wait) return {};
    if (std::holds_alternative<ComputeTask>(task.kind)) continue;
    const auto* c = std::get_if<CollectiveTask>(&task.kind);
    if (c == nullptr || category_of_stream(p, task.stream) == TimeCategory::exposed_dp) return {};
    out.push_back(c->group);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace

bool meets_in_node(const Program& p, const Cluster& cluster, const std::vector<int>& groups, int rank) {
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

bool is_closed(const Program& p, const Cluster& cluster, const Body& body, int rank) {
  const auto groups = calls_of(p, body);
  return groups && meets_in_node(p, cluster, *groups, rank);
}

std::vector<std::vector<int>> groups_called_together(const Program& p) {
  std::vector<std::vector<int>> out;
  for (const Body& body : p.bodies)
    if (auto groups = calls_of(p, body); groups && !groups->empty()) out.push_back(*std::move(groups));
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

double launch_stretch(const Program& p, const CostModel& cost, const Body& body, int rank, ExprContext at,
                      int launches) {
  const auto first = std::find(p.role_of_rank.begin(), p.role_of_rank.end(), nth(p.role_of_rank, rank));
  const int leader = static_cast<int>(first - p.role_of_rank.begin());
  at.coord = p.mesh.context(leader).coord;
  return kernel_stretch(cost.price_body(p, body, leader, at, launches));
}

}  // namespace rehearse
