#include "core/program/flops.hpp"

#include <algorithm>
#include <map>

#include "core/base/index.hpp"
#include "core/program/body.hpp"

namespace rehearse {

Flops matmul_flops(const Program& program, const ComputeTask& task, const ExprContext& at) {
  double factor = 0;
  switch (task.op) {
    case ComputeOp::matmul:
    case ComputeOp::grouped_matmul:
    case ComputeOp::convolution:
    case ComputeOp::convolution_grad: factor = 2; break;
    case ComputeOp::attention: factor = 4; break;
    case ComputeOp::attention_grad: factor = 8; break;
    case ComputeOp::state_space: factor = 7; break;
    case ComputeOp::state_space_grad: factor = 14; break;
    default: return Flops{0};
  }
  const bool recurrence = task.op == ComputeOp::state_space || task.op == ComputeOp::state_space_grad;
  const bool attention = task.op == ComputeOp::attention || task.op == ComputeOp::attention_grad;
  double product = factor;
  const bool grouped = task.op == ComputeOp::grouped_matmul;
  if (attention && task.scalars.size() > 1) product *= task.scalars[1];
  constexpr std::size_t kKeyHeads = 2, kKeys = 4, kWindow = 6;  // Dimensions of attention.
  // Of a recurrence, whose groups share work and whose window and chunk add none.
  constexpr std::size_t kGroups = 4, kState = 5;
  const auto size = [&](std::size_t i) { return static_cast<double>(program.exprs.evaluate(task.dims[i], at)); };
  // Key heads add no work, a window takes away keys; rows are those of all groups.
  for (std::size_t i = 0; i < task.dims.size(); ++i) {
    if ((attention && (i == kKeyHeads || i == kWindow)) || (grouped && i == 0) ||
        (recurrence && (i == kGroups || i > kState)))
      continue;
    product *= attention && i == kKeys && task.dims.size() > kWindow ? std::min(size(i), size(kWindow)) : size(i);
  }
  return Flops{product};
}

namespace {

/// FLOPs of one call of a body on a rank.
double body_flops(const Program& program, const Body& body, const ExprContext& at) {
  double sum = 0;
  for (const auto v : body.graph.vertices())
    if (const auto* c = std::get_if<ComputeTask>(&body.graph[v].kind)) sum += matmul_flops(program, *c, at).value();
  return sum;
}

/// Axes whose coordinate the dimensions of any task depend on.
std::vector<Axis> axes_that_matter(const Program& program) {
  std::vector<Axis> out;
  for (int a = 0; a < kAxisCount; ++a) {
    const auto depends = [&](ExprId e) { return program.exprs.depends_on(e, Var::coord, a); };
    const auto in_body = [&](const Body& body) {
      const auto tasks = body.graph.vertices();
      return std::any_of(tasks.begin(), tasks.end(), [&](auto v) {
        const auto* c = std::get_if<ComputeTask>(&body.graph[v].kind);
        return c != nullptr && std::any_of(c->dims.begin(), c->dims.end(), depends);
      });
    };
    if (std::any_of(program.bodies.begin(), program.bodies.end(), in_body)) out.push_back(static_cast<Axis>(a));
  }
  return out;
}

/// Ranks that execute the same.
struct Alike {
  int role = 0;
  ExprContext at;  ///< Of one of them.
  int count = 0;
};

std::vector<Alike> alike_ranks(const Program& program) {
  const std::vector<Axis> axes = axes_that_matter(program);
  std::map<std::vector<int>, Alike> found;
  for (std::size_t r = 0; r < program.role_of_rank.size(); ++r) {
    const ExprContext at = program.mesh.context(static_cast<int>(r));
    std::vector<int> key{program.role_of_rank[r], at.island};
    for (const Axis a : axes) key.push_back(nth(at.coord, a));
    Alike& alike = found.try_emplace(std::move(key), Alike{program.role_of_rank[r], at, 0}).first->second;
    ++alike.count;
  }
  std::vector<Alike> out;
  for (auto& [key, alike] : found) out.push_back(alike);
  return out;
}

}  // namespace

Flops executed_matmul_flops(const Program& program) {
  std::vector<std::map<int, int>> calls(program.roles.size());  // By role and body.
  for (std::size_t role = 0; role < program.roles.size(); ++role)
    for (const Entry& e : program.roles[role].step) ++calls[role][e.body];
  double total = 0;
  for (const Alike& ranks : alike_ranks(program))
    for (const auto& [body, count] : nth(calls, ranks.role))
      total += body_flops(program, nth(program.bodies, body), ranks.at) * ranks.count * count;
  return Flops{total};
}

}  // namespace rehearse
