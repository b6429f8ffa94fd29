// How products of weight gradients reach the sum over microbatches.

#include "core/strategy/operators/ops.hpp"

namespace rehearse::ops {

Operand gradient_operand(BlockBody& b, const OpSpec& op, ComputeTask& product) {
  const int sum = b.grad_accumulator(op.params[0]);
  if (!b.options().adds_pieces) {
    product.accumulates = true;
    product.accumulate = b.builder().frame().gradient_dtype;
    return update(sum);
  }
  const int piece = b.scratch_like(op.name + ".grad_piece", sum, b.builder().frame().activation_dtype);
  if (product.op == ComputeOp::matmul) return write(piece);
  // Convolutions and experts' products add to zeros: an expert's rows may be none, or come in several slices.
  product.accumulates = true;
  product.accumulate_if = ExprPool::kZero;
  return update(piece);
}

void add_piece(BlockBody& b, const OpSpec& op, const Operand& piece) {
  if (!b.options().adds_pieces) return;
  ComputeTask sum = pass(ComputeOp::add);
  sum.accumulates = true;
  b.builder().compute(op.name + ".grad_sum", sum, {read(piece.formal), update(b.grad_accumulator(op.params[0]))},
                      Phase::weight_grad);
}

}  // namespace rehearse::ops
