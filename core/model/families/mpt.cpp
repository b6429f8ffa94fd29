// MPT: learned positions or none, LayerNorm, GELU, biases only where asked for, tied output (MosaicML 2023,
// llm-foundry).

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "core/config/object_reader.hpp"
#include "core/model/architecture.hpp"
#include "core/model/families/decoder.hpp"

namespace rehearse {
namespace {

/// Positions and heads of attention, which have an object of their own.
void read_attention(TransformerConfig& c, ObjectReader& in) {
  c.positions = in.boolean("learned_pos_emb", true);
  std::optional<ObjectReader> own = in.optional_object("attn_config");
  if (!own) return;
  own->take_null_as_absent();
  for (const char* of_kernels : {"attn_type", "attn_impl", "softmax_scale", "alibi_bias_max", "attn_uses_sequence_id",
                                 "prefix_lm", "qk_gn", "fused_qkv"})
    own->expect(of_kernels);
  c.attention_dropout = own->number("attn_pdrop", kDropout, 0.0);
  c.kv_heads =
      own->integer("kv_n_heads", {1, kMaxWidth}, own->string("attn_type", "") == "multiquery_attention" ? 1 : c.heads);
  if (own->boolean("alibi", false)) {
    c.positions = false;
    c.simulated_only.emplace_back("linear biases in attention (ALiBi)");
    c.has_words = false;
  }
  if (own->has("clip_qkv")) c.simulated_only.emplace_back("clipped queries, keys and values");
  own->expect("clip_qkv");
  for (std::string& note : notes_on_unread(*own)) c.notes.push_back(std::move(note));
}

TransformerConfig read_mpt(ObjectReader& in) {
  TransformerConfig c;
  c.layers = in.integer("n_layers", {1, kMaxLayers});
  c.hidden = in.integer("d_model", {1, kMaxWidth});
  c.heads = c.kv_heads = in.integer("n_heads", {1, kMaxWidth});
  c.head_dim = per_head(in, "d_model", c.hidden, "n_heads", c.heads);
  c.ffn = std::min(c.hidden * in.integer("expansion_ratio", {1, 1024}, 4), kMaxWidth);
  c.vocabulary = in.integer("vocab_size", {1, kMaxVocabulary});
  c.max_positions = in.integer("max_seq_len", {1, kMaxPositions});
  c.qkv_bias = c.attention_output_bias = c.mlp_bias = !in.boolean("no_bias", false);
  c.tied = in.boolean("tie_word_embeddings", true);
  read_attention(c, in);
  for (const char* no_size : {"norm_type", "embedding_fraction", "logit_scale"}) in.expect(no_size);
  c.embedding_dropout = in.number("emb_pdrop", kDropout, 0.0);
  c.hidden_dropout = in.number("resid_pdrop", kDropout, 0.0);
  c.init_std = in.number("initializer_range", {0.0, 10.0}, 0.02);
  c.residual_init_std = c.init_std / std::sqrt(2.0 * static_cast<double>(c.layers));
  return c;
}

Network build_mpt(const TransformerConfig& c) { return decoder_network(c, sequential_layer(c, gelu_branch)); }

[[maybe_unused]] const bool kMptRegistered = architectures().add({
    "mpt",
    "MPT: learned positions, LayerNorm, GELU, no biases unless asked for",
    {{"d_model", "hidden size", "required"},
     {"n_layers", "layers", "required"},
     {"n_heads", "attention heads", "required"},
     {"expansion_ratio", "inner size of the MLP over the hidden size", "4"},
     {"max_seq_len", "longest sequence, rows of the position table", "required"},
     {"vocab_size", "rows of the word table", "required"},
     {"learned_pos_emb", "positions are learned", "true"},
     {"attn_config", "an object: alibi (biases in attention in place of positions), kv_n_heads, attn_pdrop", "none"},
     {"no_bias", "linear layers have no bias", "false"},
     {"emb_pdrop", "dropout after the embeddings", "0"},
     {"resid_pdrop", "dropout before each residual addition", "0"},
     {"initializer_range", "standard deviation of initial weights", "0.02"},
     {"tie_word_embeddings", "output projection shares the word table", "true"}},
    decoder_architecture(read_mpt, build_mpt),
});

}  // namespace
}  // namespace rehearse
