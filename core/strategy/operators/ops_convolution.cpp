// Convolution as the product it is: output pixels by output channels by (input channels x window). Backward is one
// convolution for the input's gradient and one for the weight's. Over tiles the input and the output's gradient come
// with halos; the weight's gradient is a term of the sum over tiles (Dryden et al. 2019, sec. III).

#include "core/base/index.hpp"
#include "core/config/setting_key.hpp"
#include "core/strategy/operators/halo.hpp"
#include "core/strategy/operators/ops.hpp"

namespace rehearse::ops {

namespace {

const SettingKey<bool> kChannelsFirst = declare_key(
    "framework.channels_first", false, "Images lie channel by channel (NCHW), not pixel by pixel (NHWC).",
    {.detail =
         "Kernels of tensor cores take images pixel by pixel: cuDNN writes and reads each operand of a convolution "
         "once more to turn it. Convolutions in 16 bits and tf32 move three times the bytes; in fp32, and where "
         "nothing is convolved, no effect. PyTorch's default; torch.channels_last is false here."});

/// Passes over the operands: the convolution's own and, where they are turned, one more to read and one to write.
double passes_of(const BlockBody& b, DType arithmetic) {
  const bool turned = kChannelsFirst(b.options().kernels) && (arithmetic == DType::tf32 || size_of(arithmetic) < 4);
  return turned ? 3 : 1;
}

/// Pixels of the batch that a rank holds of an image, halos not counted.
ExprId pixels(BlockBody& b, int formal) {
  ProgramFrame& f = b.builder().frame();
  const Tensor t = b.builder().tensor(formal);
  ExprId n = f.local(t, 0);
  for (int d = 2; d < static_cast<int>(t.shape.size()); ++d) n = f.mul(n, f.local(t, d));
  return n;
}

std::int64_t window_size(const OpSpec& op) {
  std::int64_t n = 1;
  for (const WindowDim& w : op.window) n *= w.kernel;
  return n;
}

/// Channels of one group, in and out, and elements of the window.
struct Sizes {
  std::int64_t in, out, window;
};

Sizes sizes_of(BlockBody& b, const OpSpec& op) {
  const BlockSpec& spec = *b.tensors().spec;
  const auto channels = [&](int t) { return nth(spec.tensors, t).shape[1].size / op.groups; };
  return {channels(op.inputs[0]), channels(op.outputs[0]), window_size(op)};
}

/// Channels of one group as the product sees them: m pixels, n and k per pixel.
struct Product {
  ExprId m;
  std::int64_t n, k;
};

ComputeTask task(BlockBody& b, const OpSpec& op, ComputeOp kind, const Product& p) {
  ProgramFrame& f = b.builder().frame();
  ComputeTask t = pass(kind);
  t.dims = {f.constant(op.groups), p.m, f.constant(p.n), f.constant(p.k)};
  t.arithmetic = f.arithmetic_dtype;
  t.passes = passes_of(b, t.arithmetic);
  t.scalars = window_scalars(op);
  t.scalars.push_back(static_cast<double>(op.groups));
  t.scalars.push_back(op.transposed ? 1.0 : 0.0);
  const Sizes s = sizes_of(b, op);
  t.scalars.push_back(static_cast<double>(s.out));
  t.scalars.push_back(static_cast<double>(s.in));
  return t;
}

void add_bias_convolution(BlockBody& b, const OpSpec& op, int y) {
  if (op.params.size() < 2) return;
  b.builder().compute(op.name + ".bias", pass(ComputeOp::add, "bias"), {read(b.param(op.params[1])), update(y)},
                      b.phase());
}

void forward_convolution(BlockBody& b, const OpSpec& op) {
  const int x = windowed_input(b, op, op.name);
  const int w = b.param(op.params[0]);
  const int y = b.result(op.outputs[0], b.stored(op.outputs[0]));
  const Sizes s = sizes_of(b, op);
  const Product p =
      op.transposed ? Product{pixels(b, x), s.out * s.window, s.in} : Product{pixels(b, y), s.out, s.in * s.window};
  b.builder().compute(op.name, task(b, op, ComputeOp::convolution, p), {read(x), read(w), write(y)}, b.phase());
  add_bias_convolution(b, op, y);
}

void input_gradient(BlockBody& b, const OpSpec& op, int x) {
  const Sizes s = sizes_of(b, op);
  const int dy = windowed_gradient(b, op, op.name);
  const int dx = b.scratch_like(op.name + ".input_grad", x, input_gradient_layout(b, op));
  const Product p =
      op.transposed ? Product{pixels(b, x), s.in, s.out * s.window} : Product{pixels(b, dy), s.in * s.window, s.out};
  ComputeTask t = task(b, op, ComputeOp::convolution_grad, p);
  t.variant = "input";
  b.builder().compute(op.name + ".input_grad", t, {read(dy), read(b.param(op.params[0])), write(dx)},
                      Phase::input_grad);
  b.add_grad(op.inputs[0], dx, op.name);
}

void backward_convolution(BlockBody& b, const OpSpec& op) {
  const int dy = b.grad(op.outputs[0], gradient_layout(b.stored(op.outputs[0])), op.name);
  if (dy < 0) return;
  const Sizes s = sizes_of(b, op);
  const int x = windowed_input(b, op, op.name + ".again");
  if (b.wants_grad(op.inputs[0])) input_gradient(b, op, x);
  if (!b.wants_weight_grads()) return;
  const ExprId m = pixels(b, op.transposed ? x : dy);
  const Product p = op.transposed ? Product{m, s.out * s.window, s.in} : Product{m, s.out, s.in * s.window};
  ComputeTask t = task(b, op, ComputeOp::convolution_grad, p);
  t.variant = "weight";
  const Operand to = gradient_operand(b, op, t);
  b.builder().compute(op.name + ".weight_grad", t, {read(x), read(dy), to}, Phase::weight_grad);
  add_piece(b, op, to);
  if (op.params.size() < 2) return;
  ComputeTask sum = pass(ComputeOp::add, "channel_sum");
  sum.accumulates = true;
  b.builder().compute(op.name + ".bias_grad", sum, {read(dy), update(b.grad_accumulator(op.params[1]))},
                      Phase::weight_grad);
}

}  // namespace

[[maybe_unused]] const bool registered_ops_convolution =
    lower_operators({"convolution"}, {forward_convolution, backward_convolution, saves_first_input});

}  // namespace rehearse::ops
