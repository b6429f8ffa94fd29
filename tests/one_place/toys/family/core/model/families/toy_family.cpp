// A family of toys: RMSNorm without biases, plain attention with rotary positions, GELU.

#include "core/config/object_reader.hpp"
#include "core/model/architecture.hpp"
#include "core/model/families/decoder.hpp"

namespace rehearse {
namespace {

TransformerConfig read_toy_family(ObjectReader& in) {
  TransformerConfig c;
  c.layers = in.integer("depth", {1, kMaxLayers});
  c.hidden = in.integer("width", {1, kMaxWidth});
  c.heads = c.kv_heads = in.integer("heads", {1, kMaxWidth});
  c.head_dim = per_head(in, "width", c.hidden, "heads", c.heads);
  c.ffn = 4 * c.hidden;
  c.vocabulary = in.integer("words", {1, kMaxVocabulary});
  c.max_positions = in.integer("positions", {1, kMaxPositions});
  c.norm = OpKind::rms_norm;
  c.rotary_dim = c.head_dim;
  c.rope_theta = 10000.0;
  c.init_std = c.residual_init_std = 0.02;
  return c;
}

Network build_toy_family(const TransformerConfig& c) { return decoder_network(c, sequential_layer(c, gelu_branch)); }

[[maybe_unused]] const bool kToyFamilyRegistered = architectures().add({
    "toy_family",
    "toys: RMSNorm, rotary positions, GELU, no biases",
    {{"depth", "layers", "required"},
     {"width", "hidden size", "required"},
     {"heads", "attention heads", "required"},
     {"words", "rows of the word table", "required"},
     {"positions", "longest sequence", "required"}},
    decoder_architecture(read_toy_family, build_toy_family),
});

}  // namespace
}  // namespace rehearse
