#pragma once
// The lowerings of the op kinds, one file per family; each enters its own (lower_operators).

#include "core/model/network.hpp"
#include "core/strategy/bodies/block_lowering.hpp"

namespace rehearse::ops {

/// Of an operator of one tensor that keeps its input, as kernels `activation.NAME` and `activation_grad.NAME` compute
/// it.
extern constinit const OpLowering kCurve;

/// The element-by-element task that most ops are: bytes are those of its operands.
inline ComputeTask pass(ComputeOp op, std::string variant = {}) {
  ComputeTask t;
  t.op = op;
  t.variant = std::move(variant);
  return t;
}

/// "OP.WHAT": the name of a task of `op`, and the key of a tensor beside its own.
inline std::string name_in(const OpSpec& op, const char* what) { return op.name + "." + what; }

/// Ranks along `axis`.
inline int ranks_along(BlockBody& b, Axis axis) {
  return b.builder().frame().program.mesh.islands().front().extent(axis);
}

/// Whether ranks along `axis` hold slices of dimension `dim`.
inline bool is_shard(const Layout& layout, Axis axis, int dim) {
  const AxisLayout l = layout_on(layout, axis);
  const auto* s = std::get_if<Shard>(&l);
  return s != nullptr && s->dim == dim;
}

/// What ops keep whose backward reads their inputs, the first of them, or none.
inline std::vector<int> saves_inputs(const OpSpec& op, const BlockOptions&, const ProgramFrame&) { return op.inputs; }
inline std::vector<int> saves_first_input(const OpSpec& op, const BlockOptions&, const ProgramFrame&) {
  return {op.inputs[0]};
}
inline std::vector<int> saves_nothing(const OpSpec&, const BlockOptions&, const ProgramFrame&) { return {}; }

/// The operand through which a product hands on its part of the gradient of the op's weight, its first parameter: the
/// sum over microbatches, to which it adds, or where BlockOptions::adds_pieces a scratch tensor in the type of
/// activations. add_piece() follows the product.
[[nodiscard]] Operand gradient_operand(BlockBody& b, const OpSpec& op, ComputeTask& product);
void add_piece(BlockBody& b, const OpSpec& op, const Operand& piece);

/// Whether the batch norm before an addition adds its shortcut, too (framework.fused_batch_norm).
[[nodiscard]] bool added_by_batch_norm(BlockBody& b, const OpSpec& op);

}  // namespace rehearse::ops
