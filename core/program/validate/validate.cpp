#include "core/program/validate/validate.hpp"

#include "core/program/body.hpp"
#include "core/program/validate/validate_checks.hpp"

namespace rehearse {

namespace validation {

namespace {

void check_tensors(const Program& p) {
  for (std::size_t i = 0; i < p.tensors.size(); ++i) {
    const Tensor& t = p.tensors[i];
    const auto fail = [&](const char* rule) {
      throw std::logic_error(fmt::format("program: tensor '{}': {}", t.name, rule));
    };
    for (const ExprId e : t.shape)
      if (!has_expr(p, e)) fail("no such expression");
    // Views point back, so that following them ends.
    if (t.alias_of >= static_cast<int>(i) || t.alias_of < -1)
      fail("is a view of a tensor that does not stand before it");
    for (const auto& [axis, l] : t.layout) {
      const auto* s = std::get_if<Shard>(&l);
      if (s != nullptr && !s->flat && !has(t.shape, s->dim)) fail("is sharded on a dimension it does not have");
    }
  }
}

void check_dynamic(const Program& p) {
  for (const DynamicDim& d : p.dynamic_dims) {
    const auto fail = [&](const char* rule) {
      throw std::logic_error(fmt::format("program: dynamic dimension '{}': {}", d.name, rule));
    };
    if (!has_expr(p, d.bound) || !has_expr(p, d.expectation) || !has_expr(p, d.length)) fail("no such expression");
    if (d.source >= 0 && !has(p.tensors, d.source)) fail("no such tensor holds its values");
    if (d.transpose_of >= 0 && (!has(p.dynamic_dims, d.transpose_of) || !has(p.groups, d.transpose_group)))
      fail("is what no dimension's peers draw");
    for (int r = 0; r < p.mesh.ranks(); ++r)
      if (p.exprs.evaluate(d.expectation, p.mesh.context(r)) > p.exprs.evaluate(d.bound, p.mesh.context(r)))
        fail("expects more than its bound");
  }
}

void check_ranks(const Program& p) {
  const auto fail = [](const std::string& rule) { throw std::logic_error("program: " + rule); };
  const auto ranks = static_cast<std::size_t>(p.mesh.ranks());
  if (ranks == 0) fail("the mesh has no ranks");
  if (p.role_of_rank.size() != ranks)
    fail(fmt::format("{} roles are given for {} ranks", p.role_of_rank.size(), ranks));
  if (p.device_of_rank.size() != ranks)
    fail(fmt::format("{} devices are given for {} ranks", p.device_of_rank.size(), ranks));
  for (const auto r : p.role_of_rank)
    if (!has(p.roles, r)) fail(fmt::format("no such role: {}", r));
  for (const MessageEdge& e : p.edges)
    if (!has(p.tensors, e.tensor)) fail(fmt::format("edge '{}' carries no such tensor", e.name));
}

void check_task(const Program& p, const Body& body, const Task& task) {
  if (!has(p.streams, task.stream)) refuse(body, task, "no such stream");
  if (!has_expr(p, task.predicate)) refuse(body, task, "no such expression");
  for (const Operand& o : task.operands)
    if (!has(body.formals, o.formal)) refuse(body, task, "no such formal");
  if (const auto* c = std::get_if<CollectiveTask>(&task.kind); c != nullptr && !has(p.groups, c->group))
    refuse(body, task, "no such group");
  if (const auto* m = std::get_if<P2pTask>(&task.kind)) {
    if (!has(p.groups, m->group)) refuse(body, task, "no such group");
    if (!has(p.edges, m->edge)) refuse(body, task, "no such edge");
    if (!has_expr(p, m->peer) || !has_expr(p, m->tag)) refuse(body, task, "no such expression");
  }
  if (const auto* c = std::get_if<ComputeTask>(&task.kind)) {
    for (const ExprId e : c->dims)
      if (!has_expr(p, e)) refuse(body, task, "no such expression");
    for (const int formal : {c->factor, c->group_sizes, c->element_ids})
      if (formal >= 0 && !has(body.formals, formal)) refuse(body, task, "no such formal");
  }
  if (const auto* c = std::get_if<CollectiveTask>(&task.kind);
      c != nullptr && c->variable_counts && (!has_expr(p, c->count_to_peer) || !has_expr(p, c->count_from_peer)))
    refuse(body, task, "no such expression");
}

void check_bodies(const Program& p) {
  for (const Body& body : p.bodies) {
    for (const Formal& f : body.formals)
      if (!has(p.tensors, f.like))
        throw std::logic_error(fmt::format("program: body '{}': formal '{}' is like no tensor", body.name, f.name));
    for (const TaskGraph::Edge& e : body.graph.edges())
      if (e.from >= e.to)
        throw std::logic_error(fmt::format("program: body '{}' depends against its issue order", body.name));
    for (const auto v : body.graph.vertices()) check_task(p, body, body.graph[v]);
  }
}

}  // namespace

void check_tables(const Program& p) {
  check_tensors(p);
  check_ranks(p);
  check_dynamic(p);
  check_bodies(p);
}

}  // namespace validation

void validate(const Program& program) {
  validation::check_tables(program);
  for (const Role& role : program.roles) validation::check_role(program, role);
  validation::check_traffic(program);
}

}  // namespace rehearse
