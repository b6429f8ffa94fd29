#pragma once
// The product that makes logits and the loss that reads them, run as one (framework.linear_loss), so that logits of a
// whole microbatch are never stored.

#include <string>

#include "core/strategy/operators/ops.hpp"

namespace rehearse::ops {

/// Whether `op`, the product or the loss, is run by kernels that hold logits on the chip: forward leaves a few numbers
/// per token, and backward makes the logits again.
[[nodiscard]] bool logits_on_chip(const OpSpec& op, const KernelSettings& kernels);

/// Whether `op`, the product or the loss, is run chunk by chunk of the tokens. Forward takes the gradients, too.
[[nodiscard]] bool logits_in_chunks(const OpSpec& op, const KernelSettings& kernels);

/// Both passes of the product and the loss of `op`, which is the loss.
void forward_in_chunks(BlockBody& b, const OpSpec& op);
void backward_in_chunks(BlockBody& b, const OpSpec& op);

/// What the loss of some tokens leaves for its gradient. -1: nothing.
struct LossState {
  int logits = -1;          ///< What the product made.
  int work = -1;            ///< What the loss worked on: the same, or a copy that it may overwrite.
  int max = -1, sums = -1;  ///< Of a fused loss, per token.
};
/// The loss of tokens with these logits and labels, and its gradient by the logits. `kept`: from forward to backward.
/// `mean_over`: tokens that the loss is a mean over.
[[nodiscard]] LossState loss_of_logits(BlockBody& b, const OpSpec& op, int logits, int labels, bool kept);
[[nodiscard]] int gradient_of_logits(BlockBody& b, const OpSpec& op, const LossState& state, int labels,
                                     ExprId mean_over);
/// Tokens that the loss of these labels is a mean over, apart from the replicas that the gradients' reduction divides
/// by.
[[nodiscard]] ExprId mean_tokens(BlockBody& b, int labels);

}  // namespace rehearse::ops

namespace rehearse {

/// Why back ends cannot execute what framework.linear_loss asks for; empty where they can.
[[nodiscard]] std::string linear_loss_gap(const KernelSettings& kernels);

}  // namespace rehearse
