// Cross-entropy over a vocabulary that may be split (Shoeybi et al. 2019, sec. 3): three small reductions of one number
// per token instead of a gather of the logits. Unfused it works on an fp32 copy of the logits, which is kept (4 bytes
// per logit). PyTorch's own loss works on nothing in place: backward holds the logarithms of probabilities, the labels'
// gradient and its result, 12 bytes per logit at once; over a split vocabulary also the exponentials
// (torch.distributed.tensor.parallel.loss_parallel).

#include "core/base/index.hpp"
#include "core/config/setting_key.hpp"
#include "core/strategy/operators/ops.hpp"

namespace rehearse::ops {

namespace {

const SettingKey<std::string> kLoss =
    declare_key("framework.loss", std::string("megatron"), "Whose code takes the loss where it is not one kernel.",
                {.choices = {"megatron", "pytorch"},
                 .detail = "megatron works in place on an fp32 copy of the logits. pytorch: backward holds the "
                           "logarithms of probabilities, the labels' gradient and its result at once, and the "
                           "allocator keeps the block of the half-precision logits. Without effect where "
                           "kernels.fused_cross_entropy is true."});

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

void forward_loss(BlockBody& b, const OpSpec& op) {
  BodyBuilder& body = b.builder();
  const bool fused = b.options().kernels.fused_cross_entropy;
  const int logits = b.value(op.inputs[0]), labels = b.value(op.inputs[1]);
  const Tensor l = body.tensor(logits);
  const bool split = !std::holds_alternative<Replicate>(layout_on(l.layout, Axis::tp));
  int work = logits;
  if (!fused && l.dtype != DType::fp32) {
    work = b.extra(name_in(op, "logits_fp32"), l.shape, DType::fp32, l.layout, true);
    body.compute(name_in(op, "to_fp32"), pass(ComputeOp::cast), {read(logits), write(work)}, b.phase());
  }
  std::vector<Operand> operands =
      fused ? fused_statistics(b, op, work, labels, split) : unfused_statistics(b, op, work, labels, split);
  operands.push_back(write(b.result(op.outputs[0], b.stored(op.outputs[0]))));
  body.compute(name_in(op, "loss"), piece(fused ? "loss_of_sums" : "loss"), operands, b.phase());
}

/// The gradient of the fp32 logits beside what PyTorch holds while it makes it.
int framework_gradient(BlockBody& b, const OpSpec& op, ComputeTask task, int labels, int work) {
  BodyBuilder& body = b.builder();
  const int out = b.scratch_like(name_in(op, "logits_grad_fp32"), work, DType::fp32);
  nth(body.frame().program.tensors, body.tensor_id(out)).role = TensorRole::logits_gradient;
  std::vector<Operand> operands{read(work), read(labels), write(out),
                                write(b.scratch_like(name_in(op, "label_grad"), work, DType::fp32))};
  if (!std::holds_alternative<Replicate>(layout_on(body.tensor(work).layout, Axis::tp)))
    operands.push_back(write(b.scratch_like(name_in(op, "exponentials"), work, DType::fp32)));
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
    if (kLoss(b.options().kernels) == "pytorch") {
      work = framework_gradient(b, op, t, labels, work);
    } else {
      t.variant = "in_place";
      body.compute(name_in(op, "logits_grad"), t, {read(labels), update(work)}, Phase::input_grad);
    }
    dlogits = b.scratch_like(name_in(op, "logits_grad"), work, half);
    body.compute(name_in(op, "to_half"), pass(ComputeOp::cast), {read(work), write(dlogits)}, Phase::input_grad);
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
