#include "core/model/images/layer_list.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/model/images/image_builder.hpp"

namespace rehearse {
namespace {

constexpr IntegerRange kLayerListSide{1, std::int64_t{1} << 20};
constexpr IntegerRange kCount{1, 10'000'000};
constexpr IntegerRange kRepeat{1, 10'000};

ImageInput read_input(ObjectReader& top) {
  ObjectReader in = top.object("input");
  ImageInput out;
  out.noise = in.boolean("noise", false);
  if (in.has("features")) {
    out.channels = in.integer("features", kCount);
    in.finish();
    return out;
  }
  out.channels = in.integer("channels", kCount);
  in.expect("depth");
  if (in.has("depth")) out.sides.push_back(in.integer("depth", kLayerListSide));
  out.sides.push_back(top.integer("image_height", kLayerListSide, in.integer("height", kLayerListSide)));
  out.sides.push_back(top.integer("image_width", kLayerListSide, in.integer("width", kLayerListSide)));
  in.finish();
  return out;
}

/// Reads the layers of one block.
class BlockReader {
 public:
  explicit BlockReader(ImageBuilder& net) : net_(net) {}

  void read(ObjectReader& layer) {
    const std::vector<std::string> kinds = layer_kinds().names();
    const std::string op = layer.choice("op", kinds);
    const std::string name = layer.string("name", numbered(op));
    if (name.empty()) layer.fail("name", "a name is not empty");
    const std::vector<int> from = sources(layer);
    net_.use(from[0]);
    add(op, name, layer, from);
    if (layer.has("then"))
      for (const std::string& next : layer.strings("then")) follow(layer, next, name + "." + next);
    layer.expect("then");
    layer.finish();
  }

 private:
  std::string numbered(const std::string& op) {
    const int n = ++count_[op];
    return n == 1 ? op : fmt::format("{}_{}", op, n);
  }

  void add(const std::string& op, const std::string& name, ObjectReader& layer, const std::vector<int>& from) {
    if (net_.find(name) >= 0) layer.fail("name", fmt::format("the block has a layer '{}' already", name));
    layer_kinds().at(op).value.add(net_, name, layer, from);
  }

  /// A layer without keys of its own.
  void follow(ObjectReader& layer, const std::string& op, const std::string& name) {
    if (const auto kinds = layer_kinds().names(); std::find(kinds.begin(), kinds.end(), op) == kinds.end()) {
      const Error e = unknown_name("layer", op, kinds);
      layer.fail("then", e.what(), e.hint);
    }
    const nlohmann::json none = nlohmann::json::object();
    ObjectReader plain(none, layer.origin(), layer.path() + "/then");
    add(op, name, plain, {net_.at()});
  }

  std::vector<int> sources(ObjectReader& layer) {
    layer.expect("from");
    if (!layer.has("from")) return {net_.at()};
    std::vector<std::string> names;
    if (const auto* raw = layer.raw("from"); raw->is_array())
      names = layer.strings("from");
    else
      names = {layer.string("from")};
    std::vector<int> out;
    for (const std::string& n : names) {
      const int t = net_.find(n);
      if (t < 0)
        layer.fail("from", fmt::format("nothing before this layer is called '{}'", n),
                   "a layer of this block, \"input\", or BLOCK.LAYER of an earlier block");
      out.push_back(t);
    }
    if (out.empty()) layer.fail("from", "names no layer");
    return out;
  }

  ImageBuilder& net_;
  std::map<std::string, int> count_;
};

void read_blocks(ObjectReader& in, ImageBuilder& net) {
  auto blocks = in.objects("blocks");
  if (blocks.empty()) in.fail("blocks", "a network has at least one block");
  for (ObjectReader& block : blocks) {
    const std::string block_name = block.string("name");
    if (block_name.empty() || block_name.find('.') != std::string::npos)
      block.fail("name", "a block's name is not empty and holds no dot");
    net.begin(block_name, static_cast<int>(block.integer("repeat", kRepeat, 1)));
    BlockReader reader(net);
    auto layers = block.objects("layers");
    if (layers.empty()) block.fail("layers", "a block has at least one layer");
    for (ObjectReader& layer : layers) reader.read(layer);
    block.finish();
  }
}

}  // namespace

bool is_layer_list(const nlohmann::json& document) {
  return document.is_object() && document.contains("schema") && document["schema"] == kNetworkSchema;
}

Network build_layer_list(ObjectReader& in, const std::string& name) {
  in.expect("schema");
  in.expect("description");
  const std::int64_t classes = in.integer("classes", kCount, 1000);
  ImageBuilder net(name, read_input(in), classes);
  const std::vector<std::string> kinds{"module", "he", "vgg", "inception"};
  const std::string weights = in.choice("weights", kinds, kinds.front());
  net.begin_weights(static_cast<ImageWeights>(std::find(kinds.begin(), kinds.end(), weights) - kinds.begin()));
  read_blocks(in, net);
  if (std::optional<ObjectReader> second = in.optional_object("discriminator")) {
    net.begin_discriminator();
    read_blocks(*second, net);
    second->finish();
  }
  in.finish();
  return std::move(net).finish();
}

}  // namespace rehearse
