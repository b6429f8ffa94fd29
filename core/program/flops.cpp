#include "core/program/flops.hpp"

#include <map>

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
    default: return Flops{0};
  }
  const bool attention = task.op == ComputeOp::attention || task.op == ComputeOp::attention_grad;
  double product = factor;
  const bool grouped = task.op == ComputeOp::grouped_matmul;
  if (attention && task.scalars.size() > 1) product *= task.scalars[1];
  for (std::size_t i = 0; i < task.dims.size(); ++i)
    if (!(attention && i == 2) && !(grouped && i == 0)) product *= static_cast<double>(program.exprs.evaluate(task.dims[i], at));  // kv_heads adds no work; rows are those of all groups.
  return Flops{product};
}

namespace {

/// FLOPs of one call of a body on a rank.
double body_flops(const Program& program, const Body& body, const ExprContext& at) {
  double sum = 0;
  for (const auto v : boost::make_iterator_range(boost::vertices(body.graph)))
    if (const auto* c = std::get_if<ComputeTask>(&body.graph[v].kind)) sum += matmul_flops(program, *c, at).value();
  return sum;
}

/// Whether every rank executes the same.
bool equal_everywhere(const Program& program, const Body& body) {
  for (const auto v : boost::make_iterator_range(boost::vertices(body.graph)))
    if (const auto* c = std::get_if<ComputeTask>(&body.graph[v].kind))
      for (const ExprId e : c->dims)
        if (!program.exprs.is_constant(e)) return false;
  return true;
}

}  // namespace

Flops executed_matmul_flops(const Program& program) {
  std::vector<std::vector<int>> ranks_of(program.roles.size());
  for (std::size_t r = 0; r < program.role_of_rank.size(); ++r) ranks_of[static_cast<std::size_t>(program.role_of_rank[r])].push_back(static_cast<int>(r));
  double total = 0;
  for (std::size_t role = 0; role < program.roles.size(); ++role) {
    std::map<int, int> calls;
    for (const Entry& e : program.roles[role].step) ++calls[e.body];
    for (const auto& [index, count] : calls) {
      const Body& body = program.bodies[static_cast<std::size_t>(index)];
      const std::vector<int>& ranks = ranks_of[role];
      double sum = 0;
      if (!ranks.empty() && equal_everywhere(program, body)) sum = static_cast<double>(ranks.size()) * body_flops(program, body, program.mesh.context(ranks.front()));
      else
        for (const int rank : ranks) sum += body_flops(program, body, program.mesh.context(rank));
      total += sum * count;
    }
  }
  return Flops{total};
}

}  // namespace rehearse
