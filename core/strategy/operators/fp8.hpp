#pragma once
// Products in fp8: which they are, and the passes around them that scale and cast their operands.
//
// In fp8 run the three products of a linear layer (experts' included) whose weight's dimensions are multiples of 16, as
// tensor cores need; attention, norms, router, embedding and head stay in the type of activations. A tensor is cast
// once and stored twice: as the product of forward (a weight also, of the input gradient) reads it, and along the other
// dimension for the weight gradient; once where its scale is the tensor's and tensor cores read either dimension
// (Fp8Copies). The second copy of an input, or the only one, is what is kept for backward, one byte an element in place
// of two. Inputs and weights are e4m3; gradients of outputs e5m2 under per-tensor scales (Micikevicius et al. 2022,
// sec. 3), else e4m3 (DeepSeek-AI 2024, sec. 3.3.2). Scales of blocks are not stored.

#include "core/model/network.hpp"
#include "core/strategy/bodies/block_lowering.hpp"

namespace rehearse {

namespace ops {

/// Whether the products of a linear op of this block run in fp8.
[[nodiscard]] bool in_fp8(const ProgramFrame& frame, const BlockSpec& spec, const OpSpec& op);
[[nodiscard]] inline bool in_fp8(BlockBody& b, const OpSpec& op) {
  return in_fp8(b.builder().frame(), *b.tensors().spec, op);
}

/// Formals of one tensor in fp8; -1 for the copy that is not made.
struct OperandCopies {
  int rows = -1, columns = -1;
};

/// What torch.compile's kernels move to cast an operand whose scales are those of rows, in bytes for an element of 16
/// bits over forward and backward. Ideal are 10: 3 for the copy in rows, and the other is turned in 16 bits first and
/// cast then. Fitted on every second cell of a table of speedups by shape on an H100 (pytorch/ao @6243040,
/// docs/static/fp8-rowwise-perf.png; tests/published/data/fp8_linear_speedup.csv); the other cells are met within 5 %
/// in the median.
struct RowwiseBytes {
  double input = 32.5, output_grad = 13.1, weight = 24.8, rows = 3;
};
inline constexpr RowwiseBytes kRowwiseBytes;

/// Whether wires carry operands as they are and what arrives is cast, once for each dimension: torchao's products with
/// scales of rows (pytorch/torchtitan #1207, pytorch/pytorch #149990).
[[nodiscard]] bool casts_gathered(const ProgramFrame& frame);

/// The op's input, cast as it is stored and then brought to `layout`: wires carry one byte an element. Its other copy
/// is kept for backward. The module that makes the input of a product again in backward, which is cast again then
/// instead of being kept; -1: none does.
[[nodiscard]] int input_made_again_by(const BlockTensors& tensors, const OpSpec& op);
[[nodiscard]] int fp8_input(BlockBody& b, const OpSpec& op, const Layout& layout);
/// The input in fp8 in `layout` where the body has it; -1 before.
[[nodiscard]] int& fp8_brought(BlockBody& b, const OpSpec& op, const Layout& layout);
/// The input's other copy, in backward.
[[nodiscard]] int fp8_input_again(BlockBody& b, const OpSpec& op, const Layout& layout);
/// The op's weight. Copies of a weight that a rank stores whole are kept through a step: fp8_cast_weights makes them
/// before the first forward. Where whole weights live around their use only, each pass casts what it reads.
[[nodiscard]] OperandCopies fp8_weight(BlockBody& b, const OpSpec& op);
/// Casts the weights of a block whose copies are kept, in a body of its own. Returns whether there are any.
bool fp8_cast_weights(BlockBody& b);
/// Gradients of the op's outputs in `layout(output)`; empty where nothing needs them. One that is gathered serves both
/// products.
[[nodiscard]] std::vector<OperandCopies> fp8_output_grads(BlockBody& b, const OpSpec& op,
                                                          Layout (*layout)(BlockBody&, const OpSpec&, int));

/// Whether fused attention runs in fp8, and in which arithmetic: mxfp8 with that recipe, else a scale per tensor.
[[nodiscard]] bool attention_in_fp8(const ProgramFrame& frame);
[[nodiscard]] DType attention_arithmetic(const ProgramFrame& frame);
/// Queries, keys and values, or the output's gradient, as attention in fp8 reads them. Backward reads the copies of
/// forward, which take as many bytes as the values that the block keeps in their place: its casts of those move none.
[[nodiscard]] int fp8_attention_operand(BlockBody& b, const OpSpec& op, const std::string& what, int formal,
                                        bool made_before);

}  // namespace ops

}  // namespace rehearse
