#include "gpu_backend/execute/bounds.hpp"

namespace rehearse {

Program at_bounds(Program program) {
  std::vector<ExprPool::Node> nodes = program.exprs.nodes();
  for (ExprPool::Node& n : nodes)
    if (n.op == ExprOp::variable && n.var == Var::dynamic)
      n.args[0] = program.dynamic_dims.at(static_cast<std::size_t>(n.value)).bound;
  program.exprs = ExprPool::from_nodes(std::move(nodes));
  return program;
}

}  // namespace rehearse
