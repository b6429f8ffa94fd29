// The mixer of Mamba-2 between its projections: one task each way for convolution, gates and recurrence, as the kernels
// that frameworks train with take them together and keep nothing but their inputs (Dao and Gu 2024, sec. 7;
// state-spaces/mamba, mamba_split_conv1d_scan_combined).

#include "core/base/index.hpp"
#include "core/strategy/operators/ops.hpp"

namespace rehearse::ops {

namespace {

/// Launches of the Triton kernels, the convolution's among them.
constexpr int kKernelsForward = 7, kKernelsBackward = 18;

/// Inputs z, x, b, c, dt.
ComputeTask recurrence(BlockBody& b, const OpSpec& op, ComputeOp kind, const std::vector<int>& inputs) {
  BodyBuilder& body = b.builder();
  ProgramFrame& f = body.frame();
  const BlockSpec& spec = *b.tensors().spec;
  const std::int64_t window = nth(spec.params, op.params[0]).shape[1].size;
  ComputeTask t = pass(kind);
  t.dims = {body.dim(inputs[1], 0), body.dim(inputs[1], 1), body.dim(inputs[1], 2), body.dim(inputs[1], 3),
            body.dim(inputs[2], 2), body.dim(inputs[2], 3), f.constant(window),     f.constant(op.chunk)};
  t.arithmetic = f.activation_dtype;
  t.kernels = kind == ComputeOp::state_space ? kKernelsForward : kKernelsBackward;
  return t;
}

void forward_state_space(BlockBody& b, const OpSpec& op) {
  std::vector<int> inputs;
  for (const int x : op.inputs) inputs.push_back(b.value(x));
  std::vector<Operand> operands;
  for (const int x : inputs) operands.push_back(read(x));
  for (const int p : op.params) operands.push_back(read(b.param(p)));
  operands.push_back(write(b.result(op.outputs[0], b.stored(op.outputs[0]))));
  b.builder().compute(op.name, recurrence(b, op, ComputeOp::state_space, inputs), std::move(operands), b.phase());
}

void backward_state_space(BlockBody& b, const OpSpec& op) {
  const int dy = b.grad(op.outputs[0], gradient_layout(b.stored(op.outputs[0])), op.name);
  if (dy < 0) return;
  std::vector<int> inputs, gradients;
  for (const int x : op.inputs) {
    inputs.push_back(b.value(x));
    gradients.push_back(b.scratch_like(op.name + "." + nth(b.tensors().spec->tensors, x).name + "_grad", inputs.back(),
                                       gradient_layout(b.stored(x))));
  }
  std::vector<Operand> operands{read(dy)};
  for (const int x : inputs) operands.push_back(read(x));
  for (const int p : op.params) operands.push_back(read(b.param(p)));
  for (const int g : gradients) operands.push_back(write(g));
  ComputeTask t = recurrence(b, op, ComputeOp::state_space_grad, inputs);
  t.accumulates = !op.frozen;
  if (t.accumulates)
    for (const int p : op.params) operands.push_back(update(b.grad_accumulator(p)));
  b.builder().compute(op.name + ".input_grad", std::move(t), std::move(operands), Phase::input_grad);
  for (std::size_t i = 0; i < gradients.size(); ++i) b.add_grad(op.inputs[i], gradients[i], op.name);
}

}  // namespace

[[maybe_unused]] const bool registered_ops_state_space =
    lower_operators({"state_space"}, {forward_state_space, backward_state_space, saves_inputs});

}  // namespace rehearse::ops
