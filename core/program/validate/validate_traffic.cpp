#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/index.hpp"
#include "core/program/body.hpp"
#include "core/program/validate/validate_checks.hpp"

namespace rehearse::validation {

namespace {

/// Chunk, microbatch, pass, step, layer (where the edge is per layer) and tag: what identifies a message besides its
/// ends.
using Message = std::tuple<int, int, int, int, int, std::int64_t>;
/// By (group, edge, peer rank), in issue order.
using Messages = std::map<std::tuple<int, int, int>, std::vector<Message>>;

/// Collectives and messages of one rank.
struct Traffic {
  std::map<int, std::vector<int>> collectives;  ///< By group: numbers of distinct calls.
  Messages sent, received;
};

class Listener {
 public:
  explicit Listener(const Program& p) : p_(p), tasks_(p.bodies.size()) {
    for (std::size_t b = 0; b < p.bodies.size(); ++b)
      for (const auto v : p.bodies[b].graph.vertices()) {
        const Task& task = p.bodies[b].graph[v];
        if (std::holds_alternative<CollectiveTask>(task.kind) || std::holds_alternative<P2pTask>(task.kind))
          tasks_[b].push_back(&task);
      }
  }

  Traffic hear(int rank) {
    rank_ = rank;
    here_ = p_.mesh.context(rank);
    here_.tables = &p_.tables;
    members_.clear();
    Traffic out;
    for (const Entry& e : nth(p_.roles, nth(p_.role_of_rank, rank)).step)
      for (const Task* task : nth(tasks_, e.body)) {
        if (const auto* c = std::get_if<CollectiveTask>(&task->kind))
          out.collectives[c->group].push_back(number_of(*task, c->op));
        if (const auto* m = std::get_if<P2pTask>(&task->kind)) add(out, e, *task, *m);
      }
    return out;
  }

 private:
  int number_of(const Task& task, CollectiveOp op) {
    const auto known = number_of_task_.find(&task);
    if (known != number_of_task_.end()) return known->second;
    const auto [at, fresh] = numbers_.try_emplace({op, task.name}, static_cast<int>(numbers_.size()));
    return number_of_task_[&task] = at->second;
  }

  void add(Traffic& out, const Entry& e, const Task& task, const P2pTask& m) {
    here_.layer = e.layer;
    here_.chunk = e.chunk;
    here_.microbatch = e.microbatch;
    here_.pass = e.pass;
    here_.copy = e.copy;
    const auto [at, fresh] = members_.try_emplace(m.group);
    if (fresh) at->second = p_.mesh.members(nth(p_.groups, m.group), rank_, p_.exprs);
    const std::int64_t position = p_.exprs.evaluate(m.peer, here_);
    if (!has(at->second, position))
      refuse(nth(p_.bodies, e.body), task,
             fmt::format("its peer, position {}, is outside the group of rank {}", position, rank_));
    const int layer = nth(p_.edges, m.edge).per_layer ? e.layer + m.layer_delta : 0;
    auto& list = m.direction == P2pTask::Direction::send ? out.sent : out.received;
    list[{m.group, m.edge, nth(at->second, position)}].push_back(
        {e.chunk + m.chunk_delta, e.microbatch + m.microbatch_delta, e.pass, m.step_delta, layer,
         p_.exprs.evaluate(m.tag, here_)});
  }

  const Program& p_;
  std::vector<std::vector<const Task*>> tasks_;
  std::map<std::pair<CollectiveOp, std::string>, int> numbers_;
  std::map<const Task*, int> number_of_task_;
  std::map<int, std::vector<int>> members_;
  ExprContext here_;
  int rank_ = 0;
};

using Heard = std::map<int, Traffic>;

void check_collectives(const Program& p, const Heard& heard, int rank, int group, const std::vector<int>& calls) {
  const GroupSpec& spec = nth(p.groups, group);
  for (const int other : p.mesh.members(spec, rank, p.exprs)) {
    const auto at = heard.find(other);
    if (at == heard.end()) continue;
    const auto theirs = at->second.collectives.find(group);
    if (theirs == at->second.collectives.end() || theirs->second != calls)
      throw std::logic_error(fmt::format(
          "program: ranks {} and {} issue the collectives of group '{}' in different orders", rank, other, spec.name));
  }
}

/// Every list of `mine` must be the peer's list of the other direction.
void check_messages(const Heard& heard, int rank, const Messages& mine, Messages Traffic::*theirs, bool sending) {
  for (const auto& [key, messages] : mine) {
    const auto [group, edge, peer] = key;
    const auto at = heard.find(peer);
    if (at == heard.end()) continue;
    const Messages& other = at->second.*theirs;
    const auto found = other.find({group, edge, rank});
    if (found == other.end() || found->second != messages)
      throw std::logic_error(fmt::format("program: what rank {} sends to rank {} is not what that receives, in order",
                                         sending ? rank : peer, sending ? peer : rank));
  }
}

}  // namespace

void check_traffic(const Program& p) {
  // One rank per role, those that share its other coordinates: enough, because ranks of one role issue the same.
  Listener listener(p);
  Heard heard;
  const GroupSpec stages{"stages", View::dense, {Axis::pp}, {}, ExprPool::kZero, true};
  for (const int rank : p.mesh.members(stages, 0, p.exprs)) heard.emplace(rank, listener.hear(rank));
  for (std::size_t role = 0; role < p.roles.size(); ++role) {
    const auto first = std::find(p.role_of_rank.begin(), p.role_of_rank.end(), static_cast<std::int32_t>(role));
    if (first == p.role_of_rank.end()) continue;
    const int rank = static_cast<int>(first - p.role_of_rank.begin());
    if (heard.count(rank) == 0) heard.emplace(rank, listener.hear(rank));
  }
  for (const auto& [rank, mine] : heard) {
    for (const auto& [group, calls] : mine.collectives) check_collectives(p, heard, rank, group, calls);
    check_messages(heard, rank, mine.sent, &Traffic::received, true);
    check_messages(heard, rank, mine.received, &Traffic::sent, false);
  }
}

}  // namespace rehearse::validation
