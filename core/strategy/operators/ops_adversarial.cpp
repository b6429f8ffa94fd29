// What networks that are trained against each other use beside other images' operators: the generator's tanh, and the
// loss of what a discriminator takes for real and for made.

#include "core/strategy/operators/ops.hpp"

namespace rehearse::ops {

namespace {

// ---- tanh

void tanh_forward(BlockBody& b, const OpSpec& op) {
  const int x = b.value(op.inputs[0]), y = b.result(op.outputs[0], b.stored(op.outputs[0]));
  b.builder().compute(op.name, pass(ComputeOp::activation, "tanh"), {read(x), write(y)}, b.phase());
}

void tanh_backward(BlockBody& b, const OpSpec& op) {
  const int dy = b.grad(op.outputs[0], gradient_layout(b.stored(op.outputs[0])), op.name);
  if (dy < 0 || !b.wants_grad(op.inputs[0])) return;
  const int x = b.value(op.inputs[0]),
            dx = b.scratch_like(op.name + ".input_grad", x, gradient_layout(b.stored(op.inputs[0])));
  b.builder().compute(op.name + ".input_grad", pass(ComputeOp::activation_grad, "tanh"), {read(dy), read(x), write(dx)},
                      Phase::input_grad);
  b.add_grad(op.inputs[0], dx, op.name);
}

// ---- loss

/// scalars: 1 where scores are to be high, -1 where they are to be low; and which function of that product: 0
/// softplus(-x), 1 max(0, 1 - x), 2 -x. The generator's half of a hinge loss has no margin.
ComputeTask judging(BlockBody& b, const OpSpec& op, ComputeOp kind) {
  ComputeTask t = pass(kind, "adversarial");
  const Shown shown = b.options().shown;
  t.scalars = {shown == Shown::made ? -1.0 : 1.0, !op.hinge ? 0.0 : shown == Shown::through ? 2.0 : 1.0};
  return t;
}

void loss_forward(BlockBody& b, const OpSpec& op) {
  const int scores = b.value(op.inputs[0]);
  b.builder().compute(op.name, judging(b, op, ComputeOp::cross_entropy),
                      {read(scores), write(b.result(op.outputs[0], b.stored(op.outputs[0])))}, b.phase());
}

/// Scores that the loss is a mean over, apart from the replicas that the gradients' reduction divides by.
ExprId mean_scores(BlockBody& b, int formal) {
  ProgramFrame& f = b.builder().frame();
  const Tensor scores = b.builder().tensor(formal);
  ExprId n = f.program.exprs.variable(Var::microbatches);
  for (const ExprId d : scores.shape) n = f.mul(n, d);
  return f.program.exprs.apply(ExprOp::div, n, b.divided_later(scores.layout));
}

void loss_backward(BlockBody& b, const OpSpec& op) {
  const int scores = b.value(op.inputs[0]);
  const int dx = b.scratch_like(op.name + ".scores_grad", scores, gradient_layout(b.stored(op.inputs[0])));
  ComputeTask t = judging(b, op, ComputeOp::cross_entropy_grad);
  t.dims = {mean_scores(b, scores)};
  b.builder().compute(op.name + ".scores_grad", t, {read(scores), write(dx)}, Phase::input_grad);
  b.add_grad(op.inputs[0], dx, op.name);
}

}  // namespace

[[maybe_unused]] const bool registered_ops_adversarial =
    lower_operators({"tanh"}, {tanh_forward, tanh_backward, saves_inputs}) &&
    lower_operators({"adversarial_loss"}, {loss_forward, loss_backward, saves_first_input});

}  // namespace rehearse::ops
