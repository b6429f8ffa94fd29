#include "core/program/validate.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

namespace rehearse {

namespace {

[[noreturn]] void refuse(const Role& role, std::size_t entry, const std::string& rule) {
  throw std::logic_error(fmt::format("program: role '{}', entry {}: {}", role.name, entry, rule));
}

const Body& body_of(const Program& p, const Entry& e) { return p.bodies[static_cast<std::size_t>(e.body)]; }

void check_bodies(const Program& p) {
  for (const Body& body : p.bodies) {
    const auto formals = static_cast<int>(body.formals.size());
    for (const auto e : boost::make_iterator_range(boost::edges(body.graph)))
      if (boost::source(e, body.graph) >= boost::target(e, body.graph))
        throw std::logic_error(fmt::format("program: body '{}' depends against its issue order", body.name));
    for (const auto v : boost::make_iterator_range(boost::vertices(body.graph))) {
      const Task& task = body.graph[v];
      if (task.stream < 0 || task.stream >= static_cast<StreamId>(p.streams.size()))
        throw std::logic_error(fmt::format("program: body '{}', task '{}': no such stream", body.name, task.name));
      for (const Operand& o : task.operands)
        if (o.formal < 0 || o.formal >= formals) throw std::logic_error(fmt::format("program: body '{}', task '{}': no such formal", body.name, task.name));
      if (const auto* c = std::get_if<CollectiveTask>(&task.kind); c != nullptr && (c->group < 0 || c->group >= static_cast<int>(p.groups.size())))
        throw std::logic_error(fmt::format("program: body '{}', task '{}': no such group", body.name, task.name));
    }
  }
}

void check_binding(const Program& p, const Role& role, std::size_t index, const Entry& e) {
  const Body& body = body_of(p, e);
  const BindingSet& set = p.binding_sets.at(static_cast<std::size_t>(e.bindings));
  std::size_t next = 0;
  for (const Formal& f : body.formals) {
    if (!f.bound) continue;
    if (next == set.size()) refuse(role, index, "fewer bindings than bound formals");
    const Tensor& actual = p.tensors.at(static_cast<std::size_t>(set[next].tensor));
    const Tensor& like = p.tensors.at(static_cast<std::size_t>(f.like));
    if (actual.dtype != like.dtype || actual.shape != like.shape || actual.layout != like.layout)
      refuse(role, index, fmt::format("'{}' is bound to a tensor of another type, shape or layout", f.name));
    if (actual.alias_of >= 0 && (set[next].allocate || set[next].release)) refuse(role, index, fmt::format("'{}' is a view and cannot be allocated", f.name));
    ++next;
  }
  if (next != set.size()) refuse(role, index, "more bindings than bound formals");
}

/// Follows the storage of one role through a step.
class Storage {
 public:
  Storage(const Program& p, const Role& role) : program_(p), role_(role) {
    for (const Role::Persistent& t : role.persistent) live_.insert(key(t.tensor, t.layer, 0, 0));
  }

  void apply(std::size_t index, const Entry& e) {
    const BindingSet& set = program_.binding_sets[static_cast<std::size_t>(e.bindings)];
    for (const Binding& b : set)
      if (b.allocate && !live_.insert(instance(b, e)).second) refuse(role_, index, "allocates " + text(b, e) + ", which is allocated");
    for (const Binding& b : set) {
      const Tensor& t = tensor(b);
      if (t.alias_of >= 0 || t.category == MemoryCategory::workspace) continue;
      if (live_.count(instance(b, e)) == 0) refuse(role_, index, "uses " + text(b, e) + ", which is not allocated");
    }
    for (const Binding& b : set)
      if (b.release && live_.erase(instance(b, e)) == 0) refuse(role_, index, "frees " + text(b, e) + ", which is not allocated");
  }

  void finish() const {
    if (live_.size() != role_.persistent.size())
      throw std::logic_error(fmt::format("program: role '{}' ends its step with {} tensors more than it began with", role_.name, live_.size() - role_.persistent.size()));
  }

 private:
  [[nodiscard]] const Tensor& tensor(const Binding& b) const { return program_.tensors[static_cast<std::size_t>(b.tensor)]; }
  static std::uint64_t key(int tensor, int layer, int chunk, int microbatch) {
    return (((static_cast<std::uint64_t>(tensor) * 4096 + static_cast<std::uint64_t>(layer + 8)) * 2048 + static_cast<std::uint64_t>(chunk)) << 20) +
           static_cast<std::uint64_t>(microbatch);
  }
  [[nodiscard]] std::uint64_t instance(const Binding& b, const Entry& e) const {
    const Tensor& t = tensor(b);
    return key(b.tensor, t.per_layer ? e.layer + b.instance.layer_delta : -1, t.per_chunk ? e.chunk + b.instance.chunk_delta : 0,
               t.per_microbatch ? e.microbatch + b.instance.microbatch_delta : 0);
  }
  [[nodiscard]] std::string text(const Binding& b, const Entry& e) const {
    return fmt::format("{} (block {}, microbatch {})", tensor(b).name, e.layer + b.instance.layer_delta, e.microbatch + b.instance.microbatch_delta);
  }

  const Program& program_;
  const Role& role_;
  std::unordered_set<std::uint64_t> live_;
};

void check_role(const Program& p, const Role& role) {
  std::vector<bool> recorded(static_cast<std::size_t>(role.events), false);
  Storage storage(p, role);
  for (std::size_t i = 0; i < role.step.size(); ++i) {
    const Entry& e = role.step[i];
    if (e.body < 0 || e.body >= static_cast<int>(p.bodies.size())) refuse(role, i, "no such body");
    for (std::int32_t w = 0; w < e.wait_count; ++w) {
      const Wait& wait = role.waits.at(static_cast<std::size_t>(e.first_wait + w));
      if (wait.event < 0 || wait.event >= role.events) refuse(role, i, "waits for an event that does not exist");
      if (wait.steps_back == 0 && !recorded[static_cast<std::size_t>(wait.event)]) refuse(role, i, "waits for an event that nothing before it records");
    }
    storage.apply(i, e);
    if (e.record >= 0) recorded.at(static_cast<std::size_t>(e.record)) = true;
  }
  storage.finish();
  std::set<std::pair<int, int>> seen;
  for (std::size_t i = 0; i < role.step.size(); ++i)
    if (seen.insert({role.step[i].body, role.step[i].bindings}).second) check_binding(p, role, i, role.step[i]);
}

/// Collectives and messages of one rank, in issue order.
struct Traffic {
  std::map<int, std::vector<std::string>> collectives;                  ///< By group.
  std::map<std::pair<int, int>, std::vector<std::string>> sent, received;  ///< By (edge, peer rank).
};

Traffic traffic_of(const Program& p, int rank) {
  Traffic out;
  const ExprContext here = p.mesh.context(rank);
  for (const Entry& e : p.roles[static_cast<std::size_t>(p.role_of_rank[static_cast<std::size_t>(rank)])].step) {
    const Body& body = body_of(p, e);
    for (const auto v : boost::make_iterator_range(boost::vertices(body.graph))) {
      const Task& task = body.graph[v];
      if (const auto* c = std::get_if<CollectiveTask>(&task.kind)) out.collectives[c->group].push_back(fmt::format("{} {}", name_of(c->op), task.name));
      if (const auto* m = std::get_if<P2pTask>(&task.kind)) {
        const auto members = p.mesh.members(p.groups[static_cast<std::size_t>(m->group)], rank, p.exprs);
        const int peer = members.at(static_cast<std::size_t>(p.exprs.evaluate(m->peer, here)));
        auto& list = m->direction == P2pTask::Direction::send ? out.sent : out.received;
        list[{m->edge, peer}].push_back(fmt::format("chunk {} microbatch {}", e.chunk + m->chunk_delta, e.microbatch + m->microbatch_delta));
      }
    }
  }
  return out;
}

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
    for (const auto& [key, sent] : mine.sent) {
      const auto at = traffic.find(key.second);
      if (at == traffic.end()) continue;
      const auto received = at->second.received.find({key.first, rank});
      if (received == at->second.received.end() || received->second != sent)
        throw std::logic_error(fmt::format("program: what rank {} sends to rank {} is not what that receives, in order", rank, key.second));
    }
  }
}

}  // namespace

void validate(const Program& program) {
  check_bodies(program);
  for (const Role& role : program.roles) check_role(program, role);
  check_traffic(program);
}

}  // namespace rehearse
