// Cross-entropy over a vocabulary that may be split (Shoeybi et al. 2019, sec. 3): three small reductions of one number
// per token instead of a gather of the logits. Unfused it works on an fp32 copy of the logits, which is kept (4 bytes
// per logit). PyTorch's own loss works on nothing in place: backward holds the logarithms of probabilities, the labels'
// gradient and its result, 12 bytes per logit at once; over a split vocabulary also the exponentials
// (torch.distributed.tensor.parallel.loss_parallel). Of logits that nobody casts it makes all three in 16 bits.

#include "core/base/index.hpp"
#include "core/config/setting_key.hpp"
#include "core/strategy/operators/linear_loss.hpp"

namespace rehearse::ops {

namespace {

const SettingKey<std::string> kLoss =
    declare_key("framework.loss", std::string("megatron"), "Whose code takes the loss where it is not one kernel.",
                {.choices = {"megatron", "pytorch", "pytorch_uncast"},
                 .detail = "megatron works in place on an fp32 copy of the logits. pytorch: backward holds the "
                           "logarithms of probabilities, the labels' gradient and its result at once, and the "
                           "allocator keeps the block of the half-precision logits. pytorch_uncast: the same three, "
                           "in the type of the logits. Without effect where kernels.fused_cross_entropy is true."});

const SettingKey<std::int64_t> kMetrics = declare_key(
    "framework.training_metrics", std::int64_t{0}, "Cross entropies that the training loop takes beside the loss.",
    {.least = 0,
     .most = 16,
     .detail = "Of every microbatch's logits, by PyTorch's operators in fp32, without gradients: Composer's metrics.",
     .example = "2"});

bool pytorch_loss(const BlockBody& b) { return kLoss(b.options().kernels).starts_with("pytorch"); }

/// Type in which a loss of several kernels works on logits of type `logits`.
DType working_dtype(const BlockBody& b, DType logits) {
  return kLoss(b.options().kernels) == "pytorch_uncast" ? logits : DType::fp32;
}

/// Whether one kernel takes the loss, keeping a few numbers per token.
bool in_one_kernel(const BlockBody& b, const OpSpec& op) {
  return b.options().kernels.fused_cross_entropy || logits_on_chip(op, b.options().kernels);
}

/// A pass over logits. On the chip it is part of the product.
ComputeTask piece(BlockBody& b, const OpSpec& op, const char* variant, ComputeOp what = ComputeOp::cross_entropy) {
  ComputeTask t = pass(what, variant);
  if (logits_on_chip(op, b.options().kernels)) t.passes = t.kernels = 0;
  return t;
}

/// fp32 numbers per token (`count` of them; 1 leaves the dimension out), reduced over the ranks that split the
/// vocabulary.
struct PerToken {
  const char* what;
  ReduceOp reduce;
  bool split, saved;
  int count = 1;
};

int make_per_token(BlockBody& b, const OpSpec& op, int logits, const PerToken& wanted) {
  const Tensor& l = b.builder().tensor(logits);
  std::vector<ExprId> shape{l.shape[0], l.shape[1]};
  if (wanted.count > 1) shape.push_back(b.builder().frame().constant(wanted.count));
  return b.extra(name_in(op, wanted.what), std::move(shape), DType::fp32, with_axis(l.layout, Axis::tp, Replicate{}),
                 wanted.saved);
}

void reduce_per_token(BlockBody& b, const OpSpec& op, int formal, const PerToken& wanted, Phase phase) {
  if (!wanted.split) return;
  Task task;
  task.name = name_in(op, wanted.what) + ".all_reduce";
  CollectiveTask c;
  c.op = CollectiveOp::all_reduce;
  c.reduce = wanted.reduce;
  c.group = b.builder().frame().group("tp", {Axis::tp});
  task.kind = c;
  task.operands = {update(formal)};
  task.stream = b.builder().frame().tp;
  task.phase = phase;
  b.builder().add(std::move(task));
}

/// A pass over the logits that writes the numbers, and their reduction.
int per_token(BlockBody& b, const OpSpec& op, const char* variant, int logits, const PerToken& wanted,
              std::vector<Operand> operands) {
  const int out = make_per_token(b, op, logits, wanted);
  operands.push_back(write(out));
  b.builder().compute(name_in(op, wanted.what), piece(b, op, variant), std::move(operands), b.phase());
  reduce_per_token(b, op, out, wanted, b.phase());
  return out;
}

/// Two reductions: the maximum, then the sum of exponentials beside the label's logit.
std::vector<Operand> fused_statistics(BlockBody& b, const OpSpec& op, LossState& state, int labels, bool split,
                                      bool kept) {
  const int logits = state.logits;
  state.max = per_token(b, op, "max", logits, {"max", ReduceOp::max, split, kept}, {read(logits)});
  state.sums = per_token(b, op, "sums", logits, {"sum_exp", ReduceOp::sum, split, kept, 2},
                         {read(logits), read(labels), read(state.max)});
  return {read(state.sums)};
}

/// Three reductions; the logits become probabilities in place.
std::vector<Operand> unfused_statistics(BlockBody& b, const OpSpec& op, int work, int labels, bool split) {
  const int max = per_token(b, op, "max", work, {"max", ReduceOp::max, split, false}, {read(work)});
  const PerToken wanted{"target", ReduceOp::sum, split, false};
  const int target = make_per_token(b, op, work, wanted);
  b.builder().compute(name_in(op, "exponential"), piece(b, op, "exponential"),
                      {update(work), read(labels), read(max), write(target)}, b.phase());
  reduce_per_token(b, op, target, wanted, b.phase());
  const int sum = per_token(b, op, "sum_exp", work, {"sum_exp", ReduceOp::sum, split, false}, {read(work)});
  b.builder().compute(name_in(op, "normalise"), piece(b, op, "normalise"), {update(work), read(sum)}, b.phase());
  return {read(sum), read(target)};
}

/// What metrics read and write while they are worked out: a cast of 16-bit logits, and logarithms of probabilities.
/// They come after backward, when there is room, so that no storage is counted.
void metrics(BlockBody& b, const OpSpec& op, int logits) {
  const auto count = static_cast<int>(kMetrics(b.options().kernels));
  if (count == 0 || b.phase() == Phase::recompute) return;
  const bool half = b.builder().tensor(logits).dtype != DType::fp32;
  ComputeTask t = pass(ComputeOp::cross_entropy, "max");
  t.passes = count * (half ? (2 + 4 + 4 + 4) / 2.0 : (4 + 4) / 4.0);
  t.kernels = 3 * count;
  const int out = make_per_token(b, op, logits, {"metrics", ReduceOp::max, false, false});
  b.builder().compute(name_in(op, "metrics"), t, {read(logits), write(out)}, b.phase());
}

void forward_loss(BlockBody& b, const OpSpec& op) {
  if (logits_in_chunks(op, b.options().kernels)) return forward_in_chunks(b, op);
  const int logits = b.value(op.inputs[0]), labels = b.value(op.inputs[1]);
  (void)loss_of_logits(b, op, logits, labels, true);
}

/// The gradient of the logits that the loss works on, beside what PyTorch holds while it makes it.
int framework_gradient(BlockBody& b, const OpSpec& op, ComputeTask task, int labels, int work) {
  BodyBuilder& body = b.builder();
  const DType dtype = body.tensor(work).dtype;
  const int out = b.scratch_like(name_in(op, "logits_grad_fp32"), work, dtype);
  // Only larger ones leave the block of the half-precision logits unused.
  if (dtype == DType::fp32) nth(body.frame().program.tensors, body.tensor_id(out)).role = TensorRole::logits_gradient;
  std::vector<Operand> operands{read(work), read(labels), write(out),
                                write(b.scratch_like(name_in(op, "label_grad"), work, dtype))};
  if (!std::holds_alternative<Replicate>(layout_on(body.tensor(work).layout, Axis::tp)))
    operands.push_back(write(b.scratch_like(name_in(op, "exponentials"), work, dtype)));
  body.compute(name_in(op, "logits_grad"), std::move(task), operands, Phase::input_grad);
  return out;
}

void backward_loss(BlockBody& b, const OpSpec& op) {
  if (logits_in_chunks(op, b.options().kernels)) return backward_in_chunks(b, op);
  const int labels = b.value(op.inputs[1]);
  LossState state;
  if (in_one_kernel(b, op)) {
    state = {b.value(op.inputs[0]), -1, b.extra(name_in(op, "max")), b.extra(name_in(op, "sum_exp"))};
  } else if (b.builder().frame().activation_dtype == DType::fp32) {
    state.logits = state.work = b.value(op.inputs[0]);
  } else {
    state.work = b.extra(name_in(op, "logits_fp32"));
  }
  b.add_grad(op.inputs[0], gradient_of_logits(b, op, state, labels, mean_tokens(b, labels)), op.name);
}

/// The logits themselves are kept where no fp32 copy is.
std::vector<int> saved_by_loss(const OpSpec& op, const BlockOptions& options, const ProgramFrame& frame) {
  if (logits_in_chunks(op, options.kernels)) return {};
  if (logits_on_chip(op, options.kernels)) return {op.inputs[0]};
  if (options.kernels.fused_cross_entropy || frame.activation_dtype == DType::fp32) return {op.inputs[0]};
  return {};
}

}  // namespace

LossState loss_of_logits(BlockBody& b, const OpSpec& op, int logits, int labels, bool kept) {
  BodyBuilder& body = b.builder();
  const bool one_kernel = in_one_kernel(b, op);
  const Tensor l = body.tensor(logits);
  const bool split = !std::holds_alternative<Replicate>(layout_on(l.layout, Axis::tp));
  LossState state{.logits = logits, .work = logits};
  if (!one_kernel && l.dtype != DType::fp32) {
    state.work = b.extra(name_in(op, "logits_fp32"), l.shape, working_dtype(b, l.dtype), l.layout, kept);
    body.compute(name_in(op, "to_fp32"), pass(ComputeOp::cast), {read(logits), write(state.work)}, b.phase());
  }
  std::vector<Operand> operands = one_kernel ? fused_statistics(b, op, state, labels, split, kept)
                                             : unfused_statistics(b, op, state.work, labels, split);
  operands.push_back(write(b.result(op.outputs[0], b.stored(op.outputs[0]))));
  body.compute(name_in(op, "loss"), piece(b, op, one_kernel ? "loss_of_sums" : "loss"), operands, b.phase());
  metrics(b, op, logits);
  return state;
}

int gradient_of_logits(BlockBody& b, const OpSpec& op, const LossState& state, int labels, ExprId mean_over) {
  BodyBuilder& body = b.builder();
  const bool one_kernel = in_one_kernel(b, op);
  const DType half = body.frame().activation_dtype;
  ComputeTask t = piece(b, op, one_kernel ? "fused" : "", ComputeOp::cross_entropy_grad);
  t.dims = {mean_over};
  if (one_kernel || half == DType::fp32) {
    const int out = b.scratch_like(name_in(op, "logits_grad"), state.logits, body.tensor(state.logits).layout);
    std::vector<Operand> operands{read(state.logits), read(labels), write(out)};
    if (one_kernel) {
      operands.push_back(read(state.max));
      operands.push_back(read(state.sums));
    }
    body.compute(name_in(op, "logits_grad"), std::move(t), operands, Phase::input_grad);
    return out;
  }
  int work = state.work;
  if (pytorch_loss(b)) {
    work = framework_gradient(b, op, std::move(t), labels, work);
  } else {
    t.variant = "in_place";
    body.compute(name_in(op, "logits_grad"), std::move(t), {read(labels), update(work)}, Phase::input_grad);
  }
  if (body.tensor(work).dtype == half) return work;
  const int out = b.scratch_like(name_in(op, "logits_grad"), work, half);
  body.compute(name_in(op, "to_half"), pass(ComputeOp::cast), {read(work), write(out)}, Phase::input_grad);
  return out;
}

ExprId mean_tokens(BlockBody& b, int labels) {
  ProgramFrame& f = b.builder().frame();
  ExprPool& e = f.program.exprs;
  const Tensor& t = b.builder().tensor(labels);
  const ExprId tokens = f.mul(f.mul(t.shape[0], t.shape[1]), e.variable(Var::microbatches));
  return e.apply(ExprOp::div, tokens, b.divided_later(t.layout));
}

[[maybe_unused]] const bool registered_ops_loss =
    lower_operators({"cross_entropy"}, {forward_loss, backward_loss, saved_by_loss});

}  // namespace rehearse::ops
