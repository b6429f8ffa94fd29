// Pools, batch norm, activations and joins of images: kernels bound by memory, whose bytes are their operands'.

#include <algorithm>

#include "core/base/index.hpp"
#include "core/config/setting_key.hpp"
#include "core/strategy/operators/halo.hpp"
#include "core/strategy/operators/ops.hpp"

namespace rehearse::ops {

namespace {

const SettingKey<bool> kFusedBatchNorm = declare_key(
    "framework.fused_batch_norm", false, "Batch norm takes in the addition and the activation behind it.",
    {.detail = "One kernel normalises, adds a shortcut and sets what is negative to 0, and one takes the gradients of "
               "all three (cuDNN's BN_ACTIVATION and BN_ADD_ACTIVATION): the activation moves no bytes, the addition "
               "reads the shortcut alone, and backward writes the shortcut's gradient."});

const SettingKey<std::string> kInConvolution = declare_key(
    "framework.batch_norm_in_convolution", std::string("none"), "What convolutions do of the batch norms around them.",
    {.choices = {"none", "statistics", "normalised"},
     .detail =
         "statistics: the kernel that writes a convolution's result sums it and its squares up, so that the batch "
         "norm behind reads it once less. normalised: the next convolution also normalises what it loads and "
         "sets what is negative to 0, so that a batch norm and a ReLU between two convolutions move nothing "
         "forward (cuDNN's fused operations of v7.6 on: CUDNN_FUSED_SCALE_BIAS_ACTIVATION_CONV_BNSTATS)."});

/// The op of the block that makes a tensor; null where it comes from the block before.
const OpSpec* maker_of(BlockBody& b, int tensor) {
  for (const OpSpec& op : b.tensors().spec->ops)
    if (std::find(op.outputs.begin(), op.outputs.end(), tensor) != op.outputs.end()) return &op;
  return nullptr;
}

bool is_normalised(BlockBody& b, int tensor) {
  const OpSpec* maker = maker_of(b, tensor);
  return maker != nullptr && maker->kind == OpKind::batch_norm;
}

bool adds_normalised(BlockBody& b, const OpSpec& op) {
  return op.kind == OpKind::add &&
         std::any_of(op.inputs.begin(), op.inputs.end(), [&](int input) { return is_normalised(b, input); });
}

bool is_convolved(BlockBody& b, int tensor) {
  const OpSpec* maker = maker_of(b, tensor);
  return maker != nullptr && maker->kind == OpKind::convolution;
}

/// Whether ops of `kind`, one at least, and no others of the block read a tensor that stays in it.
bool read_by_only(BlockBody& b, int tensor, OpKind kind) {
  if (b.tensors().spec->output == tensor) return false;
  int readers = 0;
  for (const OpSpec& op : b.tensors().spec->ops) {
    if (std::find(op.inputs.begin(), op.inputs.end(), tensor) == op.inputs.end()) continue;
    if (op.kind != kind) return false;
    ++readers;
  }
  return readers > 0;
}

/// The ReLU between a batch norm of a convolution's result and the convolutions that normalise while they load; null
/// where anything else reads what lies between.
const OpSpec* normalised_in_load(BlockBody& b, const OpSpec& norm) {
  if (kInConvolution(b.options().kernels) != "normalised" || !is_convolved(b, norm.inputs[0])) return nullptr;
  if (!read_by_only(b, norm.outputs[0], OpKind::relu)) return nullptr;
  for (const OpSpec& op : b.tensors().spec->ops)
    if (op.kind == OpKind::relu && op.inputs[0] == norm.outputs[0])
      return read_by_only(b, op.outputs[0], OpKind::convolution) ? &op : nullptr;
  return nullptr;
}

/// Share of a ReLU's operands that still move: forward none, backward the gradient of a shortcut.
double relu_passes(BlockBody& b, const OpSpec& op, bool backward) {
  constexpr double kWritten = 1.0 / 3;
  const OpSpec* norm = maker_of(b, op.inputs[0]);
  if (!backward && norm != nullptr && norm->kind == OpKind::batch_norm && normalised_in_load(b, *norm) == &op) return 0;
  if (!kFusedBatchNorm(b.options().kernels) || op.kind != OpKind::relu) return 1;
  if (is_normalised(b, op.inputs[0])) return 0;
  const OpSpec* add = maker_of(b, op.inputs[0]);
  return add == nullptr || !adds_normalised(b, *add) ? 1 : backward ? kWritten : 0;
}

/// Writes the op's output, whose layout is as stored.
int emit(BlockBody& b, const OpSpec& op, ComputeTask task, std::vector<Operand> operands) {
  const int y = b.result(op.outputs[0], b.stored(op.outputs[0]));
  operands.push_back(write(y));
  b.builder().compute(op.name, std::move(task), std::move(operands), b.phase());
  return y;
}

int output_gradient(BlockBody& b, const OpSpec& op) {
  return b.grad(op.outputs[0], gradient_layout(b.stored(op.outputs[0])), op.name);
}

/// Gradient of input `i`, which is no longer at hand: a tensor of its shape.
int gradient_of(BlockBody& b, const OpSpec& op, std::size_t i, const Layout& layout) {
  ProgramFrame& f = b.builder().frame();
  const BlockTensors& tensors = b.tensors();
  Tensor t = nth(f.program.tensors, nth(tensors.value, op.inputs[i]));
  t.name = tensors.spec->name + "." + op.name + ".input_grad";
  t.layout = layout;
  t.lifetime = Lifetime::scratch;
  t.per_layer = t.per_chunk = t.per_microbatch = false;
  const std::string name = t.name;
  return b.builder().scratch(name, f.add_tensor(std::move(t)));
}

int gradient_of(BlockBody& b, const OpSpec& op, std::size_t i) {
  return gradient_of(b, op, i, gradient_layout(b.stored(op.inputs[i])));
}

// ---- pools

ComputeTask pool_task(ComputeOp kind, const OpSpec& op) {
  ComputeTask t = pass(kind, op.average ? "average" : "max");
  t.scalars = window_scalars(op);
  return t;
}

std::string positions(const OpSpec& op) { return op.name + ".positions"; }

/// A maximum keeps where it was: an index per output element.
void pool_forward(BlockBody& b, const OpSpec& op) {
  const int x = windowed_input(b, op, op.name);
  std::vector<Operand> operands{read(x)};
  if (!op.average) {
    const Tensor y = nth(b.builder().frame().program.tensors, nth(b.tensors().value, op.outputs[0]));
    operands.push_back(write(b.extra(positions(op), y.shape, DType::int64, without_halos(y.layout), true)));
  }
  emit(b, op, pool_task(ComputeOp::pool, op), std::move(operands));
}

void pool_backward(BlockBody& b, const OpSpec& op) {
  if (output_gradient(b, op) < 0 || !b.wants_grad(op.inputs[0])) return;
  std::vector<Operand> operands{read(windowed_gradient(b, op, op.name))};
  if (!op.average) operands.push_back(read(with_gradient_halos(b, op, b.extra(positions(op)), op.name + ".positions")));
  const int dx = gradient_of(b, op, 0, input_gradient_layout(b, op));
  operands.push_back(write(dx));
  b.builder().compute(op.name + ".input_grad", pool_task(ComputeOp::pool_grad, op), std::move(operands),
                      Phase::input_grad);
  b.add_grad(op.inputs[0], dx, op.name);
}

/// Axes over which a value's pixels are spread.
AxisSet tile_axes(const Layout& layout) {
  AxisSet out;
  for (const auto& [axis, l] : without_halos(layout))
    if ((axis == Axis::tile_h || axis == Axis::tile_w) && std::holds_alternative<Shard>(l)) out.insert(axis);
  return out;
}

/// Each tile adds up its pixels; the mean is over all.
void global_pool_forward(BlockBody& b, const OpSpec& op) {
  const int x = b.value(op.inputs[0]);
  const int y = emit(b, op, pass(ComputeOp::pool, "global"), {read(x)});
  b.all_reduce(y, tile_axes(b.builder().tensor(x).layout), op.name, b.phase());
}

void global_pool_backward(BlockBody& b, const OpSpec& op) {
  const int dy = output_gradient(b, op);
  if (dy < 0 || !b.wants_grad(op.inputs[0])) return;
  const int dx = gradient_of(b, op, 0);
  b.builder().compute(op.name + ".input_grad", pass(ComputeOp::pool_grad, "global"), {read(dy), write(dx)},
                      Phase::input_grad);
  b.add_grad(op.inputs[0], dx, op.name);
}

// ---- batch norm

std::string moments(const OpSpec& op) { return op.name + ".moments"; }

/// Ranks that share statistics: the tiles of an image always, all replicas where they are global.
AxisSet statistics_axes(BlockBody& b, const OpSpec& op) {
  const Layout& layout = b.stored(op.inputs[0]);
  AxisSet out = tile_axes(layout);
  if (!b.options().global_statistics) return out;
  for (const Axis axis : {Axis::dp_replicate, Axis::dp_shard})
    if (!std::holds_alternative<Replicate>(layout_on(layout, axis))) out.insert(axis);
  return out;
}

const char* scope(BlockBody& b) { return b.options().global_statistics ? "global" : "replica"; }

ComputeTask statistics(BlockBody& b, const char* variant) {
  ComputeTask t = pass(ComputeOp::statistics, variant);
  t.scope = scope(b);
  return t;
}

/// Sums of x and x^2 per channel, in fp32; then the pass that normalises.
void batch_norm_forward(BlockBody& b, const OpSpec& op) {
  ProgramFrame& f = b.builder().frame();
  const int x = b.value(op.inputs[0]);
  const std::int64_t channels = nth(b.tensors().spec->params, op.params[0]).elements();
  const int sums = b.extra(moments(op), {f.constant(2 * channels)}, DType::fp32, {}, true);
  ComputeTask moments = statistics(b, "forward");
  if (kInConvolution(b.options().kernels) != "none" && is_convolved(b, op.inputs[0])) moments.passes = 0;
  b.builder().compute(op.name + ".moments", std::move(moments), {read(x), write(sums)}, b.phase());
  b.all_reduce(sums, statistics_axes(b, op), op.name, b.phase());
  ComputeTask t = pass(ComputeOp::norm, "batch_norm");
  t.epsilon = op.eps;
  t.scope = scope(b);
  if (normalised_in_load(b, op) != nullptr) t.passes = 0;
  emit(b, op, std::move(t), {read(x), read(sums), read(b.param(op.params[0])), read(b.param(op.params[1]))});
}

/// Sums of dy and dy * x per channel, which are the gradients of bias and weight too, where those are wanted; then the
/// input's gradient from their totals.
void batch_norm_backward(BlockBody& b, const OpSpec& op) {
  const int dy = output_gradient(b, op);
  if (dy < 0) return;
  const int x = b.value(op.inputs[0]), saved = b.extra(moments(op));
  const int sums = b.scratch_like(op.name + ".gradient_moments", saved, DType::fp32);
  ComputeTask total = statistics(b, "backward");
  total.epsilon = op.eps;
  std::vector<Operand> operands{read(x), read(dy), read(saved), write(sums)};
  if (b.wants_weight_grads()) {
    total.accumulates = true;
    for (const int p : op.params) operands.push_back(update(b.grad_accumulator(p)));
  }
  b.builder().compute(op.name + ".weight_grad", total, std::move(operands), Phase::weight_grad);
  if (!b.wants_grad(op.inputs[0])) return;
  b.all_reduce(sums, statistics_axes(b, op), op.name + ".gradient", Phase::input_grad);
  const int dx = gradient_of(b, op, 0);
  ComputeTask t = pass(ComputeOp::norm_grad, "batch_norm");
  t.epsilon = op.eps;
  t.scope = scope(b);
  b.builder().compute(op.name + ".input_grad", t,
                      {read(x), read(dy), read(saved), read(sums), read(b.param(op.params[0])), write(dx)},
                      Phase::input_grad);
  b.add_grad(op.inputs[0], dx, op.name);
}

// ---- relu: keeps its result, which the next layer keeps anyway; a byte per element where the block hands the result
// on

/// Leaky where it has a slope: the sign of its result is that of x too.
ComputeTask relu_task(BlockBody& b, ComputeOp kind, const OpSpec& op) {
  ComputeTask t = pass(kind, std::string(name_of(op.kind)));
  t.passes = relu_passes(b, op, kind == ComputeOp::activation_grad);
  if (op.kind == OpKind::leaky_relu) t.scalars = {op.slope};
  return t;
}

bool hands_on(BlockBody& b, const OpSpec& op) { return op.outputs[0] == b.tensors().spec->output; }
std::string mask(const OpSpec& op) { return op.name + ".mask"; }

void relu_forward(BlockBody& b, const OpSpec& op) {
  const int x = b.value(op.inputs[0]);
  std::vector<Operand> operands{read(x)};
  if (hands_on(b, op)) {
    const Tensor t = b.builder().tensor(x);
    operands.push_back(write(b.extra(mask(op), t.shape, DType::uint8, without_halos(t.layout), true)));
  }
  emit(b, op, relu_task(b, ComputeOp::activation, op), std::move(operands));
}

void relu_backward(BlockBody& b, const OpSpec& op) {
  const int dy = output_gradient(b, op);
  if (dy < 0 || !b.wants_grad(op.inputs[0])) return;
  const int kept = hands_on(b, op) ? b.extra(mask(op)) : b.value(op.outputs[0]);
  const int dx = gradient_of(b, op, 0);
  b.builder().compute(op.name + ".input_grad", relu_task(b, ComputeOp::activation_grad, op),
                      {read(dy), read(kept), write(dx)}, Phase::input_grad);
  b.add_grad(op.inputs[0], dx, op.name);
}

std::vector<int> relu_saved(const OpSpec& op, const BlockOptions&, const ProgramFrame&) { return op.outputs; }

// ---- gate

void gate_forward(BlockBody& b, const OpSpec& op) {
  emit(b, op, pass(ComputeOp::activation, "gate"), {read(b.value(op.inputs[0])), read(b.value(op.inputs[1]))});
}

void gate_backward(BlockBody& b, const OpSpec& op) {
  const int dy = output_gradient(b, op);
  if (dy < 0) return;
  const int features = gradient_of(b, op, 0), gates = gradient_of(b, op, 1);
  b.builder().compute(
      op.name + ".input_grad", pass(ComputeOp::activation_grad, "gate"),
      {read(dy), read(b.value(op.inputs[0])), read(b.value(op.inputs[1])), write(features), write(gates)},
      Phase::input_grad);
  b.add_grad(op.inputs[0], features, op.name);
  b.add_grad(op.inputs[1], gates, op.name);
}

// ---- concat, upsample

void concat_forward(BlockBody& b, const OpSpec& op) {
  std::vector<Operand> operands;
  for (const int t : op.inputs) operands.push_back(read(b.value(t)));
  emit(b, op, pass(ComputeOp::copy, "concat"), std::move(operands));
}

/// Each part's gradient is a piece of the output's, copied out so that it lies in one.
void concat_backward(BlockBody& b, const OpSpec& op) {
  const int dy = output_gradient(b, op);
  if (dy < 0) return;
  std::vector<Operand> operands;
  std::vector<int> parts;
  ComputeTask split = pass(ComputeOp::copy, "split");
  double first = 0;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    parts.push_back(b.wants_grad(op.inputs[i]) ? gradient_of(b, op, i) : -1);
    if (parts.back() >= 0) {
      operands.push_back(write(parts.back()));
      split.scalars.push_back(first);
    }
    first += static_cast<double>(nth(b.tensors().spec->tensors, op.inputs[i]).shape[1].size);
  }
  if (operands.empty()) return;
  operands.insert(operands.begin(), read(dy));
  b.builder().compute(op.name + ".input_grad", std::move(split), std::move(operands), Phase::input_grad);
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (parts[i] >= 0) b.add_grad(op.inputs[i], parts[i], op.name);
}

const char* upsample_variant(const OpSpec& op) { return op.interpolated ? "upsample_bilinear" : "upsample_nearest"; }

void upsample_forward(BlockBody& b, const OpSpec& op) {
  emit(b, op, pass(ComputeOp::copy, upsample_variant(op)), {read(windowed_input(b, op, op.name))});
}

/// Tiles of an output whose input every rank has whole: each adds up its own, and the sums are added.
AxisSet spread_axes(BlockBody& b, const OpSpec& op) {
  const AxisSet whole = tile_axes(b.stored(op.outputs[0])), split = tile_axes(b.stored(op.inputs[0]));
  AxisSet out;
  for (const Axis axis : {Axis::tile_h, Axis::tile_w})
    if (whole.contains(axis) && !split.contains(axis)) out.insert(axis);
  return out;
}

void upsample_backward(BlockBody& b, const OpSpec& op) {
  const int gradient = output_gradient(b, op);
  if (gradient < 0 || !b.wants_grad(op.inputs[0])) return;
  const AxisSet spread = spread_axes(b, op);
  const int dy = spread.empty() ? windowed_gradient(b, op, op.name) : gradient;
  const int dx = gradient_of(b, op, 0, input_gradient_layout(b, op));
  b.builder().compute(op.name + ".input_grad", pass(ComputeOp::copy, upsample_variant(op)), {read(dy), write(dx)},
                      Phase::input_grad);
  b.all_reduce(dx, spread, op.name + ".input_grad", Phase::input_grad);
  b.add_grad(op.inputs[0], dx, op.name);
}

// ---- loss per pixel

void pixel_loss_forward(BlockBody& b, const OpSpec& op) {
  emit(b, op, pass(ComputeOp::cross_entropy, "pixels"), {read(b.value(op.inputs[0])), read(b.value(op.inputs[1]))});
}

/// Pixels that the loss is a mean over, apart from the replicas that the gradients' reduction divides by.
ExprId mean_pixels(BlockBody& b, const OpSpec& op) {
  ProgramFrame& f = b.builder().frame();
  ExprPool& e = f.program.exprs;
  const Tensor labels = b.builder().tensor(b.value(op.inputs[1]));
  ExprId pixels = e.variable(Var::microbatches);
  for (const ExprId n : labels.shape) pixels = f.mul(pixels, n);
  return e.apply(ExprOp::div, pixels, b.divided_later(labels.layout));
}

void pixel_loss_backward(BlockBody& b, const OpSpec& op) {
  const int logits = b.value(op.inputs[0]);
  const int dx = b.scratch_like(op.name + ".logits_grad", logits, gradient_layout(b.stored(op.inputs[0])));
  ComputeTask t = pass(ComputeOp::cross_entropy_grad, "pixels");
  t.dims = {mean_pixels(b, op)};
  b.builder().compute(op.name + ".logits_grad", t, {read(logits), read(b.value(op.inputs[1])), write(dx)},
                      Phase::input_grad);
  b.add_grad(op.inputs[0], dx, op.name);
}

}  // namespace

bool added_by_batch_norm(BlockBody& b, const OpSpec& op) {
  if (!kFusedBatchNorm(b.options().kernels) || !adds_normalised(b, op)) return false;
  const auto& ops = b.tensors().spec->ops;
  return std::any_of(ops.begin(), ops.end(),
                     [&](const OpSpec& next) { return next.kind == OpKind::relu && next.inputs[0] == op.outputs[0]; });
}

[[maybe_unused]] const bool registered_ops_image =
    lower_operators({"pool"}, {pool_forward, pool_backward, saves_nothing}) &&
    lower_operators({"global_pool"}, {global_pool_forward, global_pool_backward, saves_nothing}) &&
    lower_operators({"batch_norm"}, {batch_norm_forward, batch_norm_backward, saves_inputs}) &&
    lower_operators({"relu", "leaky_relu"}, {relu_forward, relu_backward, relu_saved}) &&
    lower_operators({"gate"}, {gate_forward, gate_backward, saves_inputs}) &&
    lower_operators({"concat"}, {concat_forward, concat_backward, saves_nothing}) &&
    lower_operators({"upsample"}, {upsample_forward, upsample_backward, saves_nothing}) &&
    lower_operators({"pixel_loss"}, {pixel_loss_forward, pixel_loss_backward, saves_first_input});

}  // namespace rehearse::ops
