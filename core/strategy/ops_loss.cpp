// Cross-entropy over a vocabulary that may be split (Shoeybi et al. 2019, sec. 3): three small reductions of one number per
// token instead of a gather of the logits. Unfused it works on an fp32 copy of the logits, which is kept (4 bytes per logit).

#include "core/strategy/ops.hpp"

namespace rehearse::ops {

namespace {

std::string key(const OpSpec& op, const char* what) { return op.name + "." + what; }

ComputeTask piece(const char* variant) { return pass(ComputeOp::cross_entropy, variant); }

/// One fp32 number per token, reduced over the ranks that split the vocabulary.
int per_token(BlockBody& b, const OpSpec& op, const char* what, int logits, ReduceOp reduce, bool split, Phase phase, std::vector<Operand> operands,
              bool saved) {
  const Tensor& l = b.builder().tensor(logits);
  const int out = b.extra(key(op, what), {l.shape[0], l.shape[1]}, DType::fp32, with_axis(l.layout, Axis::tp, Replicate{}), saved);
  operands.push_back(write(out));
  b.builder().compute(key(op, what), piece(what), std::move(operands), phase);
  if (!split) return out;
  Task task;
  task.name = key(op, what) + ".all_reduce";
  CollectiveTask c;
  c.op = CollectiveOp::all_reduce;
  c.reduce = reduce;
  c.group = b.builder().frame().group("tp", {Axis::tp});
  task.kind = c;
  task.operands = {update(out)};
  task.stream = b.builder().frame().tp;
  task.phase = phase;
  b.builder().add(std::move(task));
  return out;
}

void forward(BlockBody& b, const OpSpec& op) {
  BodyBuilder& body = b.builder();
  const int logits = b.value(op.inputs[0]), labels = b.value(op.inputs[1]);
  const Tensor l = body.tensor(logits);
  const bool split = !std::holds_alternative<Replicate>(layout_on(l.layout, Axis::tp));
  int work = logits;
  if (!b.options().kernels.fused_cross_entropy && l.dtype != DType::fp32) {
    work = b.extra(key(op, "logits_fp32"), l.shape, DType::fp32, l.layout, true);
    body.compute(key(op, "to_fp32"), pass(ComputeOp::cast), {read(logits), write(work)}, b.phase());
  }
  if (b.options().kernels.fused_cross_entropy) {
    per_token(b, op, "max", work, ReduceOp::max, split, b.phase(), {read(work)}, true);
    per_token(b, op, "sum_exp", work, ReduceOp::sum, split, b.phase(), {read(work), read(labels)}, true);
  } else {
    per_token(b, op, "max", work, ReduceOp::max, split, b.phase(), {read(work)}, false);
    body.compute(key(op, "exponential"), piece("exponential"), {update(work)}, b.phase());
    per_token(b, op, "target", work, ReduceOp::sum, split, b.phase(), {read(labels)}, false);
    per_token(b, op, "sum_exp", work, ReduceOp::sum, split, b.phase(), {read(work)}, false);
    body.compute(key(op, "normalise"), piece("normalise"), {update(work)}, b.phase());
  }
  const int loss = b.result(op.outputs[0], b.stored(op.outputs[0]));
  body.compute(key(op, "loss"), piece("loss"), {read(b.extra(key(op, "sum_exp"))), write(loss)}, b.phase());
}

void backward(BlockBody& b, const OpSpec& op) {
  BodyBuilder& body = b.builder();
  const bool fused = b.options().kernels.fused_cross_entropy;
  const DType half = body.frame().activation_dtype;
  int dlogits;
  if (fused || half == DType::fp32) {
    const int logits = b.value(op.inputs[0]);
    dlogits = b.scratch_like(key(op, "logits_grad"), logits, body.tensor(logits).layout);
    ComputeTask t = pass(ComputeOp::cross_entropy_grad, fused ? "fused" : "");
    std::vector<Operand> operands{read(logits), read(b.value(op.inputs[1])), write(dlogits)};
    if (fused) {
      operands.push_back(read(b.extra(key(op, "max"))));
      operands.push_back(read(b.extra(key(op, "sum_exp"))));
    }
    body.compute(key(op, "logits_grad"), t, operands, Phase::input_grad);
  } else {
    const int work = b.extra(key(op, "logits_fp32"));
    body.compute(key(op, "logits_grad"), pass(ComputeOp::cross_entropy_grad), {read(b.value(op.inputs[1])), update(work)}, Phase::input_grad);
    dlogits = b.scratch_like(key(op, "logits_grad"), work, half);
    body.compute(key(op, "to_half"), pass(ComputeOp::cast), {read(work), write(dlogits)}, Phase::input_grad);
  }
  b.add_grad(op.inputs[0], dlogits, op.name);
}

/// The logits themselves are kept where no fp32 copy is.
std::vector<int> saved(const OpSpec& op, const BlockOptions& options, const ProgramFrame& frame) {
  if (options.kernels.fused_cross_entropy || frame.activation_dtype == DType::fp32) return {op.inputs[0]};
  return {};
}

}  // namespace

const OpLowering kCrossEntropy{forward, backward, saved};

}  // namespace rehearse::ops
