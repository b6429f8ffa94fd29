#include "core/program/flops.hpp"

#include <map>

namespace rehearse {

Flops matmul_flops(const Program& program, const ComputeTask& task, const ExprContext& at) {
  double factor = 0;
  switch (task.op) {
    case ComputeOp::matmul:
    case ComputeOp::grouped_matmul: factor = 2; break;
    case ComputeOp::attention: factor = 4; break;
    case ComputeOp::attention_grad: factor = 8; break;
    default: return Flops{0};
  }
  const bool attention = task.op == ComputeOp::attention || task.op == ComputeOp::attention_grad;
  double product = factor;
  for (std::size_t i = 0; i < task.dims.size(); ++i)
    if (!(attention && i == 2)) product *= static_cast<double>(program.exprs.evaluate(task.dims[i], at));  // kv_heads adds no work.
  return Flops{product};
}

Flops executed_matmul_flops(const Program& program) {
  std::vector<int> ranks_of(program.roles.size()), first(program.roles.size(), -1);
  for (std::size_t r = 0; r < program.role_of_rank.size(); ++r) {
    const auto role = static_cast<std::size_t>(program.role_of_rank[r]);
    if (ranks_of[role]++ == 0) first[role] = static_cast<int>(r);
  }
  double total = 0;
  for (std::size_t role = 0; role < program.roles.size(); ++role) {
    if (first[role] < 0) continue;
    const ExprContext at = program.mesh.context(first[role]);
    std::map<int, double> per_body;
    double sum = 0;
    for (const Entry& e : program.roles[role].step) {
      auto [entry, fresh] = per_body.try_emplace(e.body, 0.0);
      if (fresh) {
        const TaskGraph& graph = program.bodies[static_cast<std::size_t>(e.body)].graph;
        for (const auto v : boost::make_iterator_range(boost::vertices(graph)))
          if (const auto* c = std::get_if<ComputeTask>(&graph[v].kind)) entry->second += matmul_flops(program, *c, at).value();
      }
      sum += entry->second;
    }
    total += sum * ranks_of[role];
  }
  return Flops{total};
}

}  // namespace rehearse
