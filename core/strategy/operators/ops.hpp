#pragma once
// The lowerings of the op kinds, one file per family; op_lowering.cpp holds the table.

#include "core/strategy/bodies/block_lowering.hpp"

namespace rehearse::ops {

extern const OpLowering kLinear;
extern const OpLowering kAttention;
extern const OpLowering kNorm;
extern const OpLowering kDropout;
extern const OpLowering kAdd;
extern const OpLowering kGelu;
extern const OpLowering kSquaredRelu;
extern const OpLowering kSiluMul;
extern const OpLowering kRope;
extern const OpLowering kEmbedding;
extern const OpLowering kPositionEmbedding;
extern const OpLowering kCrossEntropy;
extern const OpLowering kAppend;
extern const OpLowering kRouter;
extern const OpLowering kDispatch;
extern const OpLowering kGroupedLinear;
extern const OpLowering kWeightedSiluMul;
extern const OpLowering kCombine;
extern const OpLowering kWeightedSquaredRelu;
extern const OpLowering kStateSpace;
extern const OpLowering kConvolution;
extern const OpLowering kPool;
extern const OpLowering kGlobalPool;
extern const OpLowering kBatchNorm;
extern const OpLowering kRelu;
extern const OpLowering kGate;
extern const OpLowering kConcat;
extern const OpLowering kUpsample;
extern const OpLowering kPixelLoss;
extern const OpLowering kTanh;
extern const OpLowering kAdversarialLoss;

/// The element-by-element task that most ops are: bytes are those of its operands.
inline ComputeTask pass(ComputeOp op, std::string variant = {}) {
  ComputeTask t;
  t.op = op;
  t.variant = std::move(variant);
  return t;
}

/// What ops keep whose backward reads their inputs.
inline std::vector<int> saves_inputs(const OpSpec& op, const BlockOptions&, const ProgramFrame&) { return op.inputs; }

/// The operand through which a product hands on its part of the gradient of the op's weight, its first parameter: the
/// sum over microbatches, to which it adds, or where BlockOptions::adds_pieces a scratch tensor in the type of
/// activations. add_piece() follows the product.
[[nodiscard]] Operand gradient_operand(BlockBody& b, const OpSpec& op, ComputeTask& product);
void add_piece(BlockBody& b, const OpSpec& op, const Operand& piece);

}  // namespace rehearse::ops
