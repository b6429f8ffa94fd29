#include <map>
#include <string>
#include <vector>

#include "core/program/validate_checks.hpp"

namespace rehearse::validation {

namespace {

/// By (edge, peer rank), in issue order.
using Messages = std::map<std::pair<int, int>, std::vector<std::string>>;

/// Collectives and messages of one rank.
struct Traffic {
  std::map<int, std::vector<std::string>> collectives;  ///< By group.
  Messages sent, received;
};

Traffic traffic_of(const Program& p, int rank) {
  Traffic out;
  ExprContext here = p.mesh.context(rank);
  here.tables = &p.tables;
  here.microbatches = p.microbatches;
  for (const Entry& e : p.roles[static_cast<std::size_t>(p.role_of_rank[static_cast<std::size_t>(rank)])].step) {
    const Body& body = p.bodies[static_cast<std::size_t>(e.body)];
    here.layer = e.layer;
    here.chunk = e.chunk;
    here.microbatch = e.microbatch;
    here.pass = e.pass;
    for (const auto v : boost::make_iterator_range(boost::vertices(body.graph))) {
      const Task& task = body.graph[v];
      if (const auto* c = std::get_if<CollectiveTask>(&task.kind)) out.collectives[c->group].push_back(fmt::format("{} {}", name_of(c->op), task.name));
      if (const auto* m = std::get_if<P2pTask>(&task.kind)) {
        const auto members = p.mesh.members(p.groups[static_cast<std::size_t>(m->group)], rank, p.exprs);
        const std::int64_t position = p.exprs.evaluate(m->peer, here);
        if (!has(members, position)) refuse(body, task, fmt::format("its peer, position {}, is outside the group of rank {}", position, rank));
        const int peer = members[static_cast<std::size_t>(position)];
        auto& list = m->direction == P2pTask::Direction::send ? out.sent : out.received;
        list[{m->edge, peer}].push_back(fmt::format("chunk {} microbatch {}", e.chunk + m->chunk_delta, e.microbatch + m->microbatch_delta));
      }
    }
  }
  return out;
}

void expect(const Messages& theirs, const std::pair<int, int>& key, const std::vector<std::string>& messages, int from, int to) {
  const auto found = theirs.find(key);
  if (found == theirs.end() || found->second != messages)
    throw std::logic_error(fmt::format("program: what rank {} sends to rank {} is not what that receives, in order", from, to));
}

}  // namespace

void check_traffic(const Program& p) {
  // One rank per role, those that share its other coordinates: enough, because ranks of one role issue the same.
  std::map<int, Traffic> traffic;
  const GroupSpec stages{"stages", View::dense, {Axis::pp}, {}, ExprPool::kZero, true};
  for (const int rank : p.mesh.members(stages, 0, p.exprs)) traffic.emplace(rank, traffic_of(p, rank));
  for (const auto& [rank, mine] : traffic) {
    for (const auto& [group, calls] : mine.collectives)
      for (const int other : p.mesh.members(p.groups[static_cast<std::size_t>(group)], rank, p.exprs))
        if (const auto at = traffic.find(other); at != traffic.end()) {
          const auto theirs = at->second.collectives.find(group);
          if (theirs == at->second.collectives.end() || theirs->second != calls)
            throw std::logic_error(fmt::format("program: ranks {} and {} issue the collectives of group '{}' in different orders", rank, other,
                                               p.groups[static_cast<std::size_t>(group)].name));
        }
    for (const auto& [key, messages] : mine.sent) {
      const auto other = traffic.find(key.second);
      if (other != traffic.end()) expect(other->second.received, {key.first, rank}, messages, rank, key.second);
    }
    for (const auto& [key, messages] : mine.received) {
      const auto other = traffic.find(key.second);
      if (other != traffic.end()) expect(other->second.sent, {key.first, rank}, messages, key.second, rank);
    }
  }
}

}  // namespace rehearse::validation
