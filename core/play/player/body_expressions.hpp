#pragma once
// The expressions of a body that decide whether a task runs, what it costs and whom its messages go to. Ranks and calls
// on which none of them differs may share their prices, as far as their groups lie alike.

#include <algorithm>
#include <array>

#include "core/base/index.hpp"
#include "core/program/body.hpp"
#include "core/program/program.hpp"

namespace rehearse {

template <class Holds>
bool any_expression(const Task& task, Holds holds) {
  if (holds(task.predicate)) return true;
  if (const auto* m = std::get_if<P2pTask>(&task.kind)) return holds(m->peer);
  if (const auto* c = std::get_if<ComputeTask>(&task.kind)) return std::any_of(c->dims.begin(), c->dims.end(), holds);
  return false;
}

/// Whether `holds` is true of any of them; `holds` takes an ExprId.
template <class Holds>
bool any_expression(const Program& p, const Body& body, Holds holds) {
  for (const auto v : body.graph.vertices())
    if (any_expression(body.graph[v], holds)) return true;
  return std::any_of(body.formals.begin(), body.formals.end(), [&](const Formal& f) {
    const auto& shape = nth(p.tensors, f.like).shape;
    return std::any_of(shape.begin(), shape.end(), holds);
  });
}

/// Whether calls of the body on one rank can differ.
inline bool varies_by_call(const Program& p, const Body& body) {
  constexpr std::array kOfCall{Var::layer, Var::chunk, Var::microbatch, Var::pass, Var::copy, Var::step};
  return any_expression(p, body, [&](ExprId id) {
    return std::any_of(kOfCall.begin(), kOfCall.end(), [&](Var v) { return p.exprs.depends_on(id, v); });
  });
}

inline bool only_computes(const Body& body) {
  const auto tasks = body.graph.vertices();
  return std::all_of(tasks.begin(), tasks.end(),
                     [&](auto v) { return std::holds_alternative<ComputeTask>(body.graph[v].kind); });
}

}  // namespace rehearse
