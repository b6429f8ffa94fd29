#pragma once
// What the lowerings of linear layers share: with collectives before or after the product, and with both in pieces.

#include "core/strategy/operators/ops.hpp"

namespace rehearse::ops {

/// A product {1, m, n, k} in the run's arithmetic.
[[nodiscard]] ComputeTask linear_product(BlockBody& b, const char* variant, ExprId m, ExprId n, ExprId k);
/// The same in the arithmetic that the products of `op` run in.
[[nodiscard]] ComputeTask linear_product(BlockBody& b, const OpSpec& op, const char* variant, ExprId m, ExprId n,
                                         ExprId k);
/// Layouts in which the product reads its input and writes its output `t`.
[[nodiscard]] Layout linear_input(BlockBody& b, const OpSpec& op);
[[nodiscard]] Layout linear_output(BlockBody& b, const OpSpec& op, int t);
/// The bias operand and whether this rank adds it, where the op has one.
void add_bias(BlockBody& b, const OpSpec& op, ComputeTask& task, std::vector<Operand>& operands);

/// The product itself, of formals that lie as linear_input() and linear_output() say, and that of its input's gradient
/// from those of its outputs.
void forward_product(BlockBody& b, const OpSpec& op, int x, int w, const std::vector<int>& results);
void input_product(BlockBody& b, const OpSpec& op, int w, const std::vector<int>& dy, int dx);
/// That of its weight's gradient, from output gradients like `dy`. The caller says where it goes.
[[nodiscard]] ComputeTask weight_product(BlockBody& b, const OpSpec& op, int dy);

/// Where `overlap.tp` is on and tensor-parallel ranks hold slices of the sequence between the products of a layer.
[[nodiscard]] bool gathers_in_pieces(BlockBody& b, const OpSpec& op);
[[nodiscard]] bool scatters_in_pieces(BlockBody& b, const OpSpec& op);

/// Forward of a column-parallel product: the pieces of its input go around the group, each under the product of the one
/// before.
void piecewise_gather_forward(BlockBody& b, const OpSpec& op);
/// Forward of a row-parallel product: pieces of its output gather a term on every rank on the way to their own, under
/// the next product.
void piecewise_scatter_forward(BlockBody& b, const OpSpec& op);
/// Input gradient of a row-parallel product, under the gather of the output gradient; returns that, whole, for the
/// weight gradient.
[[nodiscard]] int piecewise_input_grad(BlockBody& b, const OpSpec& op);

}  // namespace rehearse::ops
