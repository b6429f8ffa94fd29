// BERT with its masked-language head: attention both ways, norms after the additions, a tied output projection with a
// bias (Devlin et al. 2018). Pooler and next-sentence head are left out, as in pre-training on masked words alone.
// Every position is predicted, unless training.predicted_positions says how many are (core/model/encoder.hpp).

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "core/config/object_reader.hpp"
#include "core/model/architecture.hpp"
#include "core/model/families/decoder.hpp"

namespace rehearse {
namespace {

TransformerConfig read_bert(ObjectReader& in) {
  TransformerConfig c;
  c.layers = in.integer("num_hidden_layers", {1, kMaxLayers});
  c.hidden = in.integer("hidden_size", {1, kMaxWidth});
  c.heads = c.kv_heads = in.integer("num_attention_heads", {1, kMaxWidth});
  c.head_dim = per_head(in, "hidden_size", c.hidden, "num_attention_heads", c.heads);
  c.ffn = in.integer("intermediate_size", {1, kMaxWidth});
  c.vocabulary = in.integer("vocab_size", {1, kMaxVocabulary});
  c.max_positions = in.integer("max_position_embeddings", {1, kMaxPositions});
  c.norm_eps = in.number("layer_norm_eps", {0.0, 1.0}, 1e-12);
  c.qkv_bias = c.attention_output_bias = c.mlp_bias = true;
  c.tanh_gelu = read_tanh_gelu(in, "hidden_act", "gelu");
  c.causal = false;
  c.tied = true;
  c.attention_dropout = in.number("attention_probs_dropout_prob", kDropout, 0.1);
  c.embedding_dropout = c.hidden_dropout = in.number("hidden_dropout_prob", kDropout, 0.1);
  c.init_std = c.residual_init_std = in.number("initializer_range", {0.0, 10.0}, 0.02);
  return c;
}

BlockSpec embedding(const TransformerConfig& c, std::int64_t types) {
  BlockBuilder block("embedding");
  int x = block.embedding("word", block.integers("tokens", SampleField::tokens), c.vocabulary, c.hidden, c.init_std);
  x = block.position_embedding("position", x, c.max_positions, c.init_std);
  x = block.add(
      "type.add", x,
      block.embedding("type", block.integers("token_types", SampleField::token_types), types, c.hidden, c.init_std));
  x = block.dropout("dropout", block.norm(c.norm, "norm", x, c.norm_eps), c.embedding_dropout);
  return std::move(block).finish(x);
}

BlockSpec layer(const TransformerConfig& c) {
  BlockBuilder block("layer", BlockKind::layer);
  int x = block.input(hidden_shape(c));
  x = block.norm(c.norm, "ln1", block.add("attention.add", x, attention_branch(block, c, x)), c.norm_eps);
  x = block.norm(c.norm, "ln2", block.add("mlp.add", x, gelu_branch(block, c, x)), c.norm_eps);
  return std::move(block).finish(x);
}

BlockSpec head(const TransformerConfig& c) {
  BlockBuilder block("head");
  int x =
      block.linear("transform", block.input(hidden_shape(c)), hidden_shape(c), {.bias = true, .init_std = c.init_std});
  x = block.norm(c.norm, "norm", block.gelu("gelu", x, c.tanh_gelu), c.norm_eps);
  const int logits = block.linear("logits", x, {{DimTag::vocabulary, c.vocabulary}},
                                  {.bias = true, .init_std = c.init_std, .tied_to = "embedding.word.weight"});
  block.cross_entropy("loss", logits, block.integers("labels", SampleField::labels));
  return std::move(block).finish(-1);
}

Network build_bert(ObjectReader& in) {
  const TransformerConfig c = read_bert(in);
  check(c, in);
  if (const std::string kind = in.string("position_embedding_type", "absolute"); kind != "absolute")
    in.fail("position_embedding_type", fmt::format("positions are '{}'", kind), "learned rows are built: absolute");
  const std::int64_t types = in.integer("type_vocab_size", {1, kMaxVocabulary}, 2);
  Network network;
  network.blocks = {embedding(c, types), layer(c), head(c)};
  network.repeat = {1, static_cast<int>(c.layers), 1};
  network.max_sequence_length = c.max_positions;
  return network;
}

std::vector<ParameterHelp> bert_keys() {
  return {{"hidden_size", "hidden size", "required"},
          {"num_hidden_layers", "layers", "required"},
          {"num_attention_heads", "attention heads", "required"},
          {"intermediate_size", "inner size of the MLP", "required"},
          {"max_position_embeddings", "longest sequence", "required"},
          {"vocab_size", "rows of the word table", "required"},
          {"type_vocab_size", "kinds of segments", "2"},
          {"hidden_act", "gelu, or its tanh approximation gelu_new", "gelu"},
          {"layer_norm_eps", "added to the variance", "1e-12"},
          {"attention_probs_dropout_prob", "dropout of attention probabilities", "0.1"},
          {"hidden_dropout_prob", "dropout after the embedding and each branch", "0.1"},
          {"initializer_range", "standard deviation of initial weights", "0.02"},
          {"position_embedding_type", "must be absolute", "absolute"}};
}

[[maybe_unused]] const bool kBertRegistered = architectures().add({
    "bert",
    "BERT: attention both ways, norms after the additions, masked-language head",
    bert_keys(),
    {.build = build_bert, .read = {}},
});
[[maybe_unused]] const bool kRobertaRegistered = architectures().add({
    "roberta",
    "RoBERTa: BERT's layers; rows of positions before the first are padding's",
    bert_keys(),
    {.build = build_bert, .read = {}},
});

}  // namespace
}  // namespace rehearse
