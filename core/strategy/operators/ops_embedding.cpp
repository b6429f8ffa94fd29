// Word and position embeddings, and rows that positions name. With the table split by vocabulary each rank looks up its
// rows and the result is a partial sum.

#include "core/strategy/operators/ops.hpp"

namespace rehearse::ops {

namespace {

/// First row of the vocabulary slice a rank holds.
ExprId first_row(BlockBody& b, int table) {
  ProgramFrame& f = b.builder().frame();
  const Tensor& t = b.builder().tensor(table);
  if (std::holds_alternative<Replicate>(layout_on(t.layout, Axis::tp))) return ExprPool::kZero;
  ExprPool& e = f.program.exprs;
  const ExprId parts = e.extent(Axis::tp);
  const ExprId step =
      e.apply(ExprOp::div, e.apply(ExprOp::sub, e.apply(ExprOp::add, t.shape[0], parts), ExprPool::kOne), parts);
  return e.apply(ExprOp::mul, e.coord(Axis::tp), step);
}

void embedding_forward(BlockBody& b, const OpSpec& op) {
  const int tokens = b.value(op.inputs[0]);
  const int table = b.param(op.params[0]);
  const bool split = !std::holds_alternative<Replicate>(layout_on(b.param_layout(op.params[0]), Axis::tp));
  const Layout& stored = b.stored(op.outputs[0]);
  const int out = b.result(op.outputs[0], split ? with_axis(stored, Axis::tp, Partial{}) : stored);
  ComputeTask t = pass(ComputeOp::embedding);
  t.offsets = {first_row(b, table)};
  b.builder().compute(op.name, t, {read(tokens), read(table), write(out)}, b.phase());
  b.keep(op.outputs[0], out, op.name);
}

/// Where the table is frozen nothing comes before it: the gradient of its rows ends here, and so do the tokens. A task
/// that moves nothing says when: what follows the pass, as reductions of gradients do, waits for it.
void drop_gradient(BlockBody& b, const OpSpec& op) {
  const int dy = b.grad(op.outputs[0], gradient_layout(b.stored(op.outputs[0])), op.name);
  if (dy < 0) return;
  ComputeTask end = pass(ComputeOp::copy, "end");
  end.passes = 0;
  b.builder().compute(op.name + ".end", std::move(end), {read(b.value(op.inputs[0])), read(dy)}, Phase::input_grad);
}

void embedding_backward(BlockBody& b, const OpSpec& op) {
  if (op.frozen) return drop_gradient(b, op);
  const bool split = !std::holds_alternative<Replicate>(layout_on(b.param_layout(op.params[0]), Axis::tp));
  const Layout& stored = b.stored(op.outputs[0]);
  const int dy =
      b.grad(op.outputs[0], gradient_layout(split ? with_axis(stored, Axis::tp, Replicate{}) : stored), op.name);
  if (dy < 0) return;
  const int table = b.param(op.params[0]);
  ComputeTask t = pass(ComputeOp::embedding_grad);
  t.offsets = {first_row(b, table)};
  t.accumulates = true;
  b.builder().compute(op.name + ".weight_grad", t,
                      {read(b.value(op.inputs[0])), read(dy), update(b.grad_accumulator(op.params[0]))},
                      Phase::weight_grad);
}

void position_forward(BlockBody& b, const OpSpec& op) {
  const int x = b.value(op.inputs[0], b.stored(op.outputs[0]), op.name);
  const int y = b.result(op.outputs[0], b.stored(op.outputs[0]));
  b.builder().compute(op.name, pass(ComputeOp::add, "position"), {read(x), read(b.param(op.params[0])), write(y)},
                      b.phase());
}

void position_backward(BlockBody& b, const OpSpec& op) {
  const int dy = b.grad(op.outputs[0], gradient_layout(b.stored(op.outputs[0])), op.name);
  if (dy < 0) return;
  b.add_grad(op.inputs[0], dy, op.name);
  if (op.frozen) return;
  ComputeTask t = pass(ComputeOp::embedding_grad, "position");
  t.accumulates = true;
  b.builder().compute(op.name + ".weight_grad", t, {read(dy), update(b.grad_accumulator(op.params[0]))},
                      Phase::weight_grad);
}

// ---- tokens of a sequence that positions name, gathered before a head that works on those alone; backward spreads
// their gradients over one of zeros

/// Of whole sequences: slices of them over tp are gathered.
Layout whole(const Layout& layout) { return with_axis(layout, Axis::tp, Replicate{}); }

void positions_forward(BlockBody& b, const OpSpec& op) {
  const int x = b.value(op.inputs[0], whole(b.stored(op.inputs[0])), op.name);
  const int positions = b.value(op.inputs[1]);
  const int y = b.result(op.outputs[0], b.stored(op.outputs[0]));
  b.builder().compute(op.name, pass(ComputeOp::embedding, "positions"), {read(positions), read(x), write(y)},
                      b.phase());
  b.keep(op.outputs[0], y, op.name);
}

void positions_backward(BlockBody& b, const OpSpec& op) {
  const int dy = b.grad(op.outputs[0], gradient_layout(b.stored(op.outputs[0])), op.name);
  if (dy < 0) return;
  const int dx = b.scratch_of(op.inputs[0], op.name + ".input_grad", whole(b.stored(op.inputs[0])));
  b.builder().compute(op.name + ".zeros", pass(ComputeOp::fill, "zeros"), {write(dx)}, Phase::input_grad);
  ComputeTask spread = pass(ComputeOp::embedding_grad, "positions");
  spread.accumulates = true;
  b.builder().compute(op.name + ".input_grad", spread, {read(b.value(op.inputs[1])), update(dx), read(dy)},
                      Phase::input_grad);
  b.add_grad(op.inputs[0], dx, op.name);
}

}  // namespace

[[maybe_unused]] const bool registered_ops_embedding =
    lower_operators({"embedding"}, {embedding_forward, embedding_backward, saves_nothing}) &&
    lower_operators({"position_embedding"}, {position_forward, position_backward, saves_nothing}) &&
    lower_operators({"gather_positions"}, {positions_forward, positions_backward, saves_nothing});

}  // namespace rehearse::ops
