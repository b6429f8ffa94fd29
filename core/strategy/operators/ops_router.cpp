// The router: a small product, then scores, the k best experts and their weights, and the losses that keep experts
// even. Scores are kept for backward in fp32.

#include "core/strategy/operators/ops.hpp"
#include "core/strategy/operators/ops_routing.hpp"

namespace rehearse::ops {

namespace {

ComputeTask gate_product(BlockBody& b, const char* variant, ExprId m, ExprId n, ExprId k) {
  ComputeTask t = pass(ComputeOp::matmul, variant);
  t.dims = {ExprPool::kOne, m, n, k};
  t.arithmetic =
      b.builder().frame().arithmetic_dtype == DType::tf32 ? DType::tf32 : b.builder().frame().activation_dtype;
  return t;
}

bool balances(const OpSpec& op) { return op.routing.aux_loss > 0; }

ComputeTask routing_task(BlockBody& b, const OpSpec& op, ComputeOp kind, int x) {
  ProgramFrame& f = b.builder().frame();
  const Routing& r = op.routing;
  ComputeTask t = pass(kind, r.sigmoid ? "sigmoid" : "softmax");
  const Tensor& tokens = b.builder().tensor(x);
  ExprPool& e = f.program.exprs;
  const ExprId replicas = b.replicas(tokens.layout);
  t.dims = {b.tokens(x),
            f.constant(r.experts),
            f.constant(r.top_k),
            f.constant(r.groups),
            f.constant(r.limit),
            e.apply(ExprOp::div, f.mul(tokens.shape[0], tokens.shape[1]), replicas),
            f.mul(e.variable(Var::microbatches), e.apply(ExprOp::div, replicas, b.divided_later(tokens.layout))),
            b.options().global_statistics ? replicas : ExprPool::kOne};
  t.scalars = {r.scale, r.aux_loss, r.z_loss, r.normalise ? 1.0 : 0.0};
  if (balances(op)) t.scope = b.options().global_statistics ? "global" : "replica";
  return t;
}

/// Tokens per expert over the ranks that share a sequence (tp, cp), and over all replicas for a loss that balances the
/// whole batch.
void reduce_load(BlockBody& b, const OpSpec& op, int load) {
  ProgramFrame& f = b.builder().frame();
  AxisSet axes;
  for (const auto& [axis, l] : b.stored(op.outputs[0]))
    if (axis == Axis::tp || axis == Axis::cp ||
        (b.options().global_statistics && (axis == Axis::dp_replicate || axis == Axis::dp_shard)))
      axes.insert(axis);
  if (axes.empty()) return;
  CollectiveTask c;
  c.op = CollectiveOp::all_reduce;
  std::string name;
  if (axes.contains(Axis::dp_replicate) || axes.contains(Axis::dp_shard)) name = "dp";
  for (const auto& [axis, part] : {std::pair(Axis::cp, "cp"), std::pair(Axis::tp, "tp")})
    if (axes.contains(axis)) name += (name.empty() ? "" : ".") + std::string(part);
  c.group = f.group(name, axes);
  Task task;
  task.name = name_in(op, "load.all_reduce");
  task.kind = c;
  task.operands = {update(load)};
  task.stream = f.ep;
  task.phase = b.phase();
  b.builder().add(std::move(task));
}

void forward_router(BlockBody& b, const OpSpec& op) {
  BodyBuilder& body = b.builder();
  ProgramFrame& f = body.frame();
  const Layout& layout = b.stored(op.outputs[0]);
  const int x = b.value(op.inputs[0], layout, op.name), w = b.param(op.params[0]);
  const std::vector<ExprId> tokens(body.tensor(x).shape.begin(), body.tensor(x).shape.begin() + 2);
  const auto per_token = [&](std::int64_t n) { return std::vector<ExprId>{tokens[0], tokens[1], f.constant(n)}; };
  const int scores = b.extra(name_in(op, "scores"), per_token(op.routing.experts), DType::fp32, layout, true);
  ComputeTask product = gate_product(b, "linear", b.tokens(x), body.dim(w, 0), body.dim(w, 1));
  product.transpose_b = true;
  std::vector<Operand> factors{read(x), read(w), write(scores)};
  if (op.params.size() > 1) {
    factors.push_back(read(b.param(op.params[1])));
    product.offsets = {ExprPool::kOne};
  }
  body.compute(op.name, product, std::move(factors), b.phase());
  const int weights = b.result(op.outputs[0], layout);
  const int choice = b.extra(choice_of(op), per_token(op.routing.top_k), DType::int32, layout, true);
  std::vector<Operand> operands{read(scores), write(weights), write(choice)};
  if (balances(op))
    operands.push_back(write(b.extra(name_in(op, "load"), {f.constant(op.routing.experts)}, DType::fp32, {}, true)));
  body.compute(name_in(op, "route"), routing_task(b, op, ComputeOp::route, x), operands, b.phase());
  if (balances(op)) reduce_load(b, op, b.extra(name_in(op, "load")));
}

void backward_router(BlockBody& b, const OpSpec& op) {
  BodyBuilder& body = b.builder();
  const Layout& layout = b.stored(op.outputs[0]);
  const int dweights = b.grad(op.outputs[0], gradient_layout(layout), op.name);
  if (dweights < 0) return;
  const int x = b.value(op.inputs[0], layout, op.name), w = b.param(op.params[0]);
  const int scores = b.extra(name_in(op, "scores"));
  const int dscores = b.scratch_like(name_in(op, "scores_grad"), scores, body.frame().activation_dtype);
  std::vector<Operand> operands{read(dweights), read(scores), read(b.extra(choice_of(op))), write(dscores)};
  if (balances(op)) operands.push_back(read(b.extra(name_in(op, "load"))));
  body.compute(name_in(op, "route_grad"), routing_task(b, op, ComputeOp::route_grad, x), operands, Phase::input_grad);
  const ExprId n = body.dim(w, 0), k = body.dim(w, 1), m = b.tokens(x);
  const int dx = b.scratch_like(name_in(op, "input_grad"), x, gradient_layout(layout));
  body.compute(name_in(op, "input_grad"), gate_product(b, "linear_input_grad", m, k, n),
               {read(w), write(dx), read(dscores)}, Phase::input_grad);
  b.add_grad(op.inputs[0], dx, op.name);
  if (op.frozen) return;
  ComputeTask weight = gate_product(b, "linear_weight_grad", n, k, m);
  weight.transpose_a = true;
  const Operand to = gradient_operand(b, op, weight);
  body.compute(name_in(op, "weight_grad"), weight, {read(x), to, read(dscores)}, Phase::weight_grad);
  add_piece(b, op, to);
  if (op.params.size() < 2) return;
  ComputeTask sum = pass(ComputeOp::add, "column_sum");
  sum.accumulates = true;
  body.compute(name_in(op, "bias_grad"), sum, {read(dscores), update(b.grad_accumulator(op.params[1]))},
               Phase::weight_grad);
}

}  // namespace

std::string choice_of(const OpSpec& router) { return router.name + ".choice"; }

const OpSpec& router_of(const BlockSpec& block, const OpSpec& op) {
  for (const OpSpec& other : block.ops)
    if (other.kind == OpKind::router && other.outputs.front() == op.inputs.at(1)) return other;
  throw std::logic_error(op.name + ": no router made its weights");
}

[[maybe_unused]] const bool registered_ops_router =
    lower_operators({"router"}, {forward_router, backward_router, saves_first_input});

}  // namespace rehearse::ops
