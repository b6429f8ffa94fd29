// Cross-entropy over a vocabulary that may be split (Shoeybi et al. 2019, sec. 3): three small reductions of one number
// per token instead of a gather of the logits. Unfused it works on an fp32 copy of the logits, which is kept (4 bytes
// per logit). PyTorch's own loss works on nothing in place: backward holds the logarithms of probabilities, the labels'
// gradient and its result, 12 bytes per logit at once; over a split vocabulary also the exponentials
// (torch.distributed.tensor.parallel.loss_parallel). Of logits that nobody casts it makes all three in 16 bits.

#include "core/base/index.hpp"
#include "core/config/setting_key.hpp"
#include "core/strategy/operators/ops.hpp"

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

ComputeTask piece(const char* variant) { return pass(ComputeOp::cross_entropy, variant); }

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
  b.builder().compute(name_in(op, wanted.what), piece(variant), std::move(operands), b.phase());
  reduce_per_token(b, op, out, wanted, b.phase());
  return out;
}

/// Two reductions: the maximum, then the sum of exponentials beside the label's logit.
std::vector<Operand> fused_statistics(BlockBody& b, const OpSpec& op, int logits, int labels, bool split) {
  const int max = per_token(b, op, "max", logits, {"max", ReduceOp::max, split, true}, {read(logits)});
  const int sums = per_token(b, op, "sums", logits, {"sum_exp", ReduceOp::sum, split, true, 2},
                             {read(logits), read(labels), read(max)});
  return {read(sums)};
}

/// Three reductions; the logits become probabilities in place.
std::vector<Operand> unfused_statistics(BlockBody& b, const OpSpec& op, int work, int labels, bool split) {
  const int max = per_token(b, op, "max", work, {"max", ReduceOp::max, split, false}, {read(work)});
  const PerToken wanted{"target", ReduceOp::sum, split, false};
  const int target = make_per_token(b, op, work, wanted);
  b.builder().compute(name_in(op, "exponential"), piece("exponential"),
                      {update(work), read(labels), read(max), write(target)}, b.phase());
  reduce_per_token(b, op, target, wanted, b.phase());
  const int sum = per_token(b, op, "sum_exp", work, {"sum_exp", ReduceOp::sum, split, false}, {read(work)});
  b.builder().compute(name_in(op, "normalise"), piece("normalise"), {update(work), read(sum)}, b.phase());
  return {read(sum), read(target)};
}

/// What metrics read and write while they are worked out: a cast of 16-bit logits, and logarithms of probabilities.
/// They come after backward, when there is room, so that no storage is counted.
void metrics(BlockBody& b, const OpSpec& op, int logits) {
  const auto count = static_cast<int>(kMetrics(b.options().kernels));
  if (count == 0 || b.phase() == Phase::recompute) return;
  const bool half = b.builder().tensor(logits).dtype != DType::fp32;
  ComputeTask t = piece("max");
  t.passes = count * (half ? (2 + 4 + 4 + 4) / 2.0 : (4 + 4) / 4.0);
  t.kernels = 3 * count;
  const int out = make_per_token(b, op, logits, {"metrics", ReduceOp::max, false, false});
  b.builder().compute(name_in(op, "metrics"), t, {read(logits), write(out)}, b.phase());
}

void forward_loss(BlockBody& b, const OpSpec& op) {
  BodyBuilder& body = b.builder();
  const bool fused = b.options().kernels.fused_cross_entropy;
  const int logits = b.value(op.inputs[0]), labels = b.value(op.inputs[1]);
  const Tensor l = body.tensor(logits);
  const bool split = !std::holds_alternative<Replicate>(layout_on(l.layout, Axis::tp));
  int work = logits;
  if (!fused && l.dtype != DType::fp32) {
    work = b.extra(name_in(op, "logits_fp32"), l.shape, working_dtype(b, l.dtype), l.layout, true);
    body.compute(name_in(op, "to_fp32"), pass(ComputeOp::cast), {read(logits), write(work)}, b.phase());
  }
  std::vector<Operand> operands =
      fused ? fused_statistics(b, op, work, labels, split) : unfused_statistics(b, op, work, labels, split);
  operands.push_back(write(b.result(op.outputs[0], b.stored(op.outputs[0]))));
  body.compute(name_in(op, "loss"), piece(fused ? "loss_of_sums" : "loss"), operands, b.phase());
  metrics(b, op, logits);
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

/// Tokens that the loss is a mean over, apart from the replicas that the gradients' reduction divides by.
ExprId mean_tokens(BlockBody& b, int labels) {
  ProgramFrame& f = b.builder().frame();
  ExprPool& e = f.program.exprs;
  const Tensor& t = b.builder().tensor(labels);
  const ExprId tokens = f.mul(f.mul(t.shape[0], t.shape[1]), e.variable(Var::microbatches));
  return e.apply(ExprOp::div, tokens, b.divided_later(t.layout));
}

void backward_loss(BlockBody& b, const OpSpec& op) {
  BodyBuilder& body = b.builder();
  const bool fused = b.options().kernels.fused_cross_entropy;
  const DType half = body.frame().activation_dtype;
  const int labels = b.value(op.inputs[1]);
  ComputeTask t = pass(ComputeOp::cross_entropy_grad, fused ? "fused" : "");
  t.dims = {mean_tokens(b, labels)};
  int dlogits = -1;
  if (fused || half == DType::fp32) {
    const int logits = b.value(op.inputs[0]);
    dlogits = b.scratch_like(name_in(op, "logits_grad"), logits, body.tensor(logits).layout);
    std::vector<Operand> operands{read(logits), read(labels), write(dlogits)};
    if (fused) {
      operands.push_back(read(b.extra(name_in(op, "max"))));
      operands.push_back(read(b.extra(name_in(op, "sum_exp"))));
    }
    body.compute(name_in(op, "logits_grad"), t, operands, Phase::input_grad);
  } else {
    int work = b.extra(name_in(op, "logits_fp32"));
    if (pytorch_loss(b)) {
      work = framework_gradient(b, op, t, labels, work);
    } else {
      t.variant = "in_place";
      body.compute(name_in(op, "logits_grad"), t, {read(labels), update(work)}, Phase::input_grad);
    }
    dlogits = work;
    if (body.tensor(work).dtype != half) {
      dlogits = b.scratch_like(name_in(op, "logits_grad"), work, half);
      body.compute(name_in(op, "to_half"), pass(ComputeOp::cast), {read(work), write(dlogits)}, Phase::input_grad);
    }
  }
  b.add_grad(op.inputs[0], dlogits, op.name);
}

/// The logits themselves are kept where no fp32 copy is.
std::vector<int> saved_by_loss(const OpSpec& op, const BlockOptions& options, const ProgramFrame& frame) {
  if (options.kernels.fused_cross_entropy || frame.activation_dtype == DType::fp32) return {op.inputs[0]};
  return {};
}

}  // namespace

[[maybe_unused]] const bool registered_ops_loss =
    lower_operators({"cross_entropy"}, {forward_loss, backward_loss, saved_by_loss});

}  // namespace rehearse::ops
