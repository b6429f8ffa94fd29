#pragma once
// Parts that decoder-only transformers share. A family writes its layer out of these; embedding and head follow from the configuration.

#include "core/model/block_builder.hpp"
#include "core/model/hf_config.hpp"

namespace rehearse {

/// Blocks "embedding", "layer" (c.layers times) and "head". The embedding is word rows, learned positions where there is no rotary
/// embedding, dropout; the head is the last norm, the output projection and cross-entropy.
[[nodiscard]] Network decoder_network(const TransformerConfig& c, BlockSpec layer);

/// Fused q, k, v projection, rotary embedding, causal attention, output projection and dropout on `x` [b,s,h]: the branch, before its
/// residual addition. Names start with "attention.".
[[nodiscard]] int attention_branch(BlockBuilder& block, const TransformerConfig& c, int x);
/// fc1, GELU, fc2, dropout. Names start with "mlp.".
[[nodiscard]] int gelu_branch(BlockBuilder& block, const TransformerConfig& c, int x);
/// Fused gate and up projection, SiLU(gate) * up, down projection, dropout.
[[nodiscard]] int gated_branch(BlockBuilder& block, const TransformerConfig& c, int x);

/// Norm, attention, add, norm, `mlp`, add: the layer of GPT-2 and of Llama. Norms are "ln1" and "ln2".
[[nodiscard]] BlockSpec sequential_layer(const TransformerConfig& c, int (*mlp)(BlockBuilder&, const TransformerConfig&, int));

}  // namespace rehearse
