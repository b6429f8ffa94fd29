// Tokens of a sequence that positions name, gathered before a head that works on those alone. Backward spreads their
// gradients over one of zeros.

#include "core/strategy/operators/ops.hpp"

namespace rehearse::ops {

namespace {

/// Of whole sequences: slices of them over tp are gathered.
Layout whole(const Layout& layout) { return with_axis(layout, Axis::tp, Replicate{}); }

void gather_forward(BlockBody& b, const OpSpec& op) {
  const int x = b.value(op.inputs[0], whole(b.stored(op.inputs[0])), op.name);
  const int positions = b.value(op.inputs[1]);
  const int y = b.result(op.outputs[0], b.stored(op.outputs[0]));
  b.builder().compute(op.name, pass(ComputeOp::embedding, "positions"), {read(positions), read(x), write(y)},
                      b.phase());
  b.keep(op.outputs[0], y, op.name);
}

void gather_backward(BlockBody& b, const OpSpec& op) {
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

[[maybe_unused]] const bool registered_ops_positions =
    lower_operators({"gather_positions"}, {gather_forward, gather_backward, saves_nothing});

}  // namespace rehearse::ops
