#pragma once
// Parts that transformers share. A family writes its layer out of these; embedding and head follow from the
// configuration.

#include "core/model/block_builder.hpp"
#include "core/model/hf_config.hpp"

namespace rehearse {

/// Of a token, where branches join the residual stream.
[[nodiscard]] inline Shape hidden_shape(const TransformerConfig& c) { return {{DimTag::hidden, c.hidden}}; }

/// Blocks "embedding", "layer" (c.layers times) and "head". The embedding is word rows, learned positions where there
/// is no rotary embedding and the network has positions, dropout; the head is the last norm, the output projection and
/// cross-entropy, with the prediction modules after it.
[[nodiscard]] Network decoder_network(const TransformerConfig& c, BlockSpec layer);
/// The same for a network with experts: "dense_layer" c.experts.dense_layers times, then "layer".
[[nodiscard]] Network expert_network(const TransformerConfig& c);
/// Layers with experts of which every second, from the first on, is a "window_layer" that attends to c.window tokens.
[[nodiscard]] Network alternating_network(const TransformerConfig& c);

/// Fused q, k, v projection, norms of q and k where there are any, rotary embedding, attention, output projection and
/// dropout on `x` [b,s,h]: the branch, before its residual addition. Names start with "attention.".
[[nodiscard]] int attention_branch(BlockBuilder& block, const TransformerConfig& c, int x);
/// The same with latent queries, keys and values.
[[nodiscard]] int latent_attention_branch(BlockBuilder& block, const TransformerConfig& c, int x);
/// fc1, GELU, fc2, dropout. Names start with "mlp.".
[[nodiscard]] int gelu_branch(BlockBuilder& block, const TransformerConfig& c, int x);
/// fc1, squared ReLU, fc2, dropout.
[[nodiscard]] int squared_relu_branch(BlockBuilder& block, const TransformerConfig& c, int x);
/// Fused gate and up projection, SiLU(gate) * up, down projection, dropout.
[[nodiscard]] int gated_branch(BlockBuilder& block, const TransformerConfig& c, int x);
/// Router, dispatch, the experts' MLPs, gated or of squared ReLU, as grouped products, combine; shared experts beside
/// them, projections to a latent and back around them where there is one. Names start with "moe.".
[[nodiscard]] int expert_branch(BlockBuilder& block, const TransformerConfig& c, int x);

/// fc1, ReLU, fc2, dropout.
[[nodiscard]] int relu_branch(BlockBuilder& block, const TransformerConfig& c, int x);

/// Layers by c.residual, c.gated, c.activation and c.kinds: a block for each kind of layer, and the order of these.
[[nodiscard]] Network stack_network(const TransformerConfig& c);

/// Norm, attention, add, norm, `mlp`, add on `x`. Norms are "ln1" and "ln2".
[[nodiscard]] int add_layer(BlockBuilder& block, const TransformerConfig& c, int x,
                            int (*mlp)(BlockBuilder&, const TransformerConfig&, int));
/// The layer of GPT-2 and of Llama as a block.
[[nodiscard]] BlockSpec sequential_layer(const TransformerConfig& c,
                                         int (*mlp)(BlockBuilder&, const TransformerConfig&, int),
                                         const std::string& name = "layer");

/// One multi-token prediction module on `x`, the last layer's output (DeepSeek-V3, eq. 21 to 24): the embedding of the
/// next token and `x`, both normalised, projected to h, one layer, and the main model's output projection with a loss
/// of its own. Word table and output projection are the main model's, and with c.one_prediction_module all else is the
/// first one's. Names start with "mtp<number>.".
void add_prediction(BlockBuilder& block, const TransformerConfig& c, int x, int number);

}  // namespace rehearse
