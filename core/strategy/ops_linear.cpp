// Linear: one GEMM forward; input gradient and weight gradient backward. Column parallel (weight split by output features) reads
// whole tokens and writes its slice of features; row parallel reads its slice and writes a partial sum (Shoeybi et al. 2019).

#include "core/strategy/ops.hpp"

namespace rehearse::ops {

namespace {

bool is_shard(const Layout& layout, Axis axis, int dim) {
  const AxisLayout l = layout_on(layout, axis);
  const auto* s = std::get_if<Shard>(&l);
  return s != nullptr && s->dim == dim;
}

/// Layout in which the product reads its input.
Layout input_layout(BlockBody& b, const OpSpec& op) {
  // All pixels of an image go into one product: tiles are gathered.
  const Layout stored = with_axis(with_axis(b.stored(op.inputs[0]), Axis::tile_h, Replicate{}), Axis::tile_w, Replicate{});
  const Layout& weight = b.param_layout(op.params[0]);
  return is_shard(weight, Axis::tp, 0) ? with_axis(stored, Axis::tp, Replicate{}) : stored;
}

/// Layout in which it writes its outputs.
Layout output_layout(BlockBody& b, const OpSpec& op, int t) {
  const Layout& weight = b.param_layout(op.params[0]);
  return is_shard(weight, Axis::tp, 1) ? with_axis(b.stored(t), Axis::tp, Partial{}) : b.stored(t);
}

ComputeTask product(BlockBody& b, const char* variant, ExprId m, ExprId n, ExprId k) {
  ComputeTask t;
  t.op = ComputeOp::matmul;
  t.variant = variant;
  t.dims = {ExprPool::kOne, m, n, k};
  t.arithmetic = b.builder().frame().arithmetic_dtype;
  return t;
}

void forward(BlockBody& b, const OpSpec& op) {
  const int x = b.value(op.inputs[0], input_layout(b, op), op.name);
  const int w = b.param(op.params[0]);
  std::vector<Operand> operands{read(x), read(w)};
  std::vector<int> results;
  for (const int t : op.outputs) {
    results.push_back(b.result(t, output_layout(b, op, t)));
    operands.push_back(write(results.back()));
  }
  ComputeTask t = product(b, "linear", b.tokens(results.front()), b.builder().dim(w, 0), b.builder().dim(w, 1));
  t.transpose_b = true;
  if (op.params.size() > 1) {
    operands.push_back(read(b.param(op.params[1])));
    // The terms of a partial sum share one bias: the group's first rank adds it.
    ExprPool& e = b.builder().frame().program.exprs;
    const bool partial = is_shard(b.param_layout(op.params[0]), Axis::tp, 1);
    t.offsets = {partial ? e.apply(ExprOp::eq, e.coord(Axis::tp), ExprPool::kZero) : ExprPool::kOne};
  }
  b.builder().compute(op.name, t, operands, b.phase());
  for (std::size_t i = 0; i < results.size(); ++i) b.keep(op.outputs[i], results[i], op.name);
}

/// Column sums of the output gradient, as it is stored: a rank sums over its own tokens. Frameworks run them as kernels of their own.
void bias_gradient(BlockBody& b, const OpSpec& op) {
  if (op.params.size() < 2) return;
  std::vector<Operand> operands;
  for (const int t : op.outputs) operands.push_back(read(b.grad(t, gradient_layout(b.stored(t)), op.name)));
  operands.push_back(update(b.grad_accumulator(op.params[1])));
  ComputeTask sum;
  sum.op = ComputeOp::add;
  sum.variant = "column_sum";
  sum.accumulates = true;
  b.builder().compute(op.name + ".bias_grad", sum, operands, Phase::weight_grad);
}

void backward(BlockBody& b, const OpSpec& op) {
  std::vector<int> dy;
  for (const int t : op.outputs) {
    const int g = b.grad(t, gradient_layout(output_layout(b, op, t)), op.name);
    if (g < 0) return;
    dy.push_back(g);
  }
  const int w = b.param(op.params[0]);
  const ExprId n = b.builder().dim(w, 0), k = b.builder().dim(w, 1), m = b.tokens(dy[0]);
  // Asked for before the input gradient is computed, so that a gather runs beside it.
  const int x = b.value(op.inputs[0], input_layout(b, op), op.name + ".again");
  if (b.wants_grad(op.inputs[0])) {
    const Layout in = input_layout(b, op);
    const bool column = is_shard(b.param_layout(op.params[0]), Axis::tp, 0);
    const int dx = b.scratch_like(op.name + ".input_grad", x, column ? with_axis(in, Axis::tp, Partial{}) : in);
    std::vector<Operand> operands{read(w), write(dx)};
    for (const int f : dy) operands.push_back(read(f));
    b.builder().compute(op.name + ".input_grad", product(b, "linear_input_grad", m, k, n), operands, Phase::input_grad);
    b.add_grad(op.inputs[0], dx, op.name);
  }
  ComputeTask t = product(b, "linear_weight_grad", n, k, m);
  t.transpose_a = true;
  t.accumulates = true;
  t.accumulate = b.builder().frame().gradient_dtype;
  std::vector<Operand> operands{read(x), update(b.grad_accumulator(op.params[0]))};
  for (const int f : dy) operands.push_back(read(f));
  b.builder().compute(op.name + ".weight_grad", t, operands, Phase::weight_grad);
  bias_gradient(b, op);
}

std::vector<int> saved(const OpSpec& op, const BlockOptions&, const ProgramFrame&) { return {op.inputs[0]}; }

}  // namespace

const OpLowering kLinear{forward, backward, saved};

}  // namespace rehearse::ops
