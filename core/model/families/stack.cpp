// Stacks of decoder layers that differ in where norms stand, in their MLP, and from layer to layer.

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/index.hpp"
#include "core/model/families/decoder.hpp"

namespace rehearse {
namespace {

int plain_mlp(BlockBuilder& block, const TransformerConfig& c, int x) {
  if (c.gated) return gated_branch(block, c, x);
  switch (c.activation) {
    case Activation::relu: return relu_branch(block, c, x);
    case Activation::squared_relu: return squared_relu_branch(block, c, x);
    default: return gelu_branch(block, c, x);
  }
}

/// One layer of a kind on x.
class StackLayer {
 public:
  StackLayer(BlockBuilder& block, TransformerConfig stack, const LayerVariant& kind)
      : block_(block), c_(std::move(stack)), routed_(kind.routed) {
    if (!kind.windowed) c_.window = 0;
    if (!kind.turned) c_.rotary_dim = 0;
  }

  int run(int x) {
    switch (c_.residual) {
      case Residual::parallel: return side_by_side(x, norm("ln1", x), norm("ln2", x));
      case Residual::parallel_shared: {
        const int y = norm("ln1", x);
        return side_by_side(x, y, y);
      }
      case Residual::sandwiched:
        x = block_.add("attention.add", x, norm("ln1_after", attention(norm("ln1", x))));
        return block_.add("mlp.add", x, norm("ln2_after", mlp(norm("ln2", x))));
      case Residual::after:
        x = block_.add("attention.add", x, norm("ln1", attention(x)));
        return block_.add("mlp.add", x, norm("ln2", mlp(x)));
      case Residual::sequential: break;
    }
    x = block_.add("attention.add", x, attention(norm("ln1", x)));
    return block_.add("mlp.add", x, mlp(norm("ln2", x)));
  }

 private:
  int norm(const char* name, int x) { return block_.norm(c_.norm, name, x, c_.norm_eps); }
  int attention(int x) {
    return c_.latent.kv_rank > 0 ? latent_attention_branch(block_, c_, x) : attention_branch(block_, c_, x);
  }
  int mlp(int x) { return routed_ ? expert_branch(block_, c_, x) : plain_mlp(block_, c_, x); }
  /// The branches are added to each other first, so that tensor parallelism reduces both at once.
  int side_by_side(int x, int for_attention, int for_mlp) {
    const int a = attention(for_attention), m = mlp(for_mlp);
    return block_.add("residual.add", x, block_.add("branches.add", a, m));
  }

  BlockBuilder& block_;
  TransformerConfig c_;
  bool routed_;
};

/// "layer" for the last kind to appear, whose layers a network may not be without; others by what they have.
std::string name_of_kind(const LayerVariant& kind, const LayerVariant& usual) {
  if (kind == usual) return "layer";
  std::string out;
  if (kind.routed != usual.routed) out += kind.routed ? "expert_" : "dense_";
  if (kind.windowed != usual.windowed) out += kind.windowed ? "window_" : "full_";
  if (kind.turned != usual.turned) out += kind.turned ? "turned_" : "unturned_";
  return out + "layer";
}

BlockSpec stack_layer(const TransformerConfig& c, const LayerVariant& kind, const std::string& name) {
  BlockBuilder block(name, BlockKind::layer);
  const int x = block.input(hidden_shape(c));
  const int y = StackLayer(block, c, kind).run(x);
  return std::move(block).finish(y);
}

}  // namespace

Network stack_network(const TransformerConfig& c) {
  const LayerVariant alike{c.window > 0, true, c.experts.routing.experts > 0};
  std::vector<LayerVariant> kinds;  // Each once, in the order of their first layers.
  for (const LayerVariant& k : c.kinds)
    if (std::find(kinds.begin(), kinds.end(), k) == kinds.end()) kinds.push_back(k);
  if (kinds.size() < 2) return decoder_network(c, stack_layer(c, kinds.empty() ? alike : kinds.front(), "layer"));
  Network network = decoder_network(c, {});
  network.blocks.erase(network.blocks.begin() + 1);
  network.repeat = {1, 1};
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const auto at = static_cast<std::ptrdiff_t>(k) + 1;
    network.blocks.insert(network.blocks.begin() + at, stack_layer(c, kinds[k], name_of_kind(kinds[k], kinds.back())));
    network.repeat.insert(network.repeat.begin() + at,
                          static_cast<int>(std::count(c.kinds.begin(), c.kinds.end(), kinds[k])));
  }
  for (const LayerVariant& k : c.kinds)
    network.pattern.push_back(static_cast<int>(std::find(kinds.begin(), kinds.end(), k) - kinds.begin()) + 1);
  return network;
}

}  // namespace rehearse
