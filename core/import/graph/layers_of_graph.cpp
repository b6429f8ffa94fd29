// From the nodes of a graph to blocks of a layer list. A block ends where one tensor alone goes on; equal blocks in a
// row are one that repeats.

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/config/json_file.hpp"
#include "core/config/object_reader.hpp"
#include "core/import/graph/fx_node.hpp"
#include "core/model/architecture.hpp"
#include "core/model/images/layer_list.hpp"

namespace rehearse {
namespace {

constexpr int kImage = -1;  // What the network reads.
constexpr int kNoLayer = -2;

/// A node as a layer; inputs are numbers of layers.
struct GraphLayer {
  std::string kind;
  nlohmann::ordered_json keys;
  std::vector<int> inputs;
  std::vector<std::int64_t> shape;
};

[[noreturn]] void refuse_node(const std::string& origin, const GraphNode& n, const std::string& what,
                              const std::string& hint = {}) {
  throw Error(ErrorKind::usage, what, fmt::format("{}: {} ({})", origin, n.name, n.op), hint);
}

/// Whether the window covers all pixels.
bool takes_all_pixels(const GraphLayer& l) {
  return l.kind == "average_pool" && l.shape.size() == 4 && l.shape[2] == 1 && l.shape[3] == 1 && l.keys.size() == 1;
}

/// The layers of a graph, in its order.
class LayersOfGraph {
 public:
  LayersOfGraph(const Graph& graph, std::string origin) : origin_(std::move(origin)) {
    for (const GraphNode& n : graph.nodes) add(n);
    if (image_.empty()) throw Error(ErrorKind::usage, "the graph has no input", origin_);
    if (losses_ == 0) throw Error(ErrorKind::usage, "the graph has no output", origin_);
    if (layers.back().kind != "softmax_loss")
      throw Error(ErrorKind::usage, "what stands last is no output", origin_,
                  "trace the module whose result is the output");
  }

  std::vector<GraphLayer> layers;
  std::map<std::string, int> unknown;
  std::int64_t classes = 1;
  [[nodiscard]] const std::vector<std::int64_t>& image() const { return image_; }

 private:
  void add(const GraphNode& n) {
    if (n.kind == "input") return add_input(n);
    if (n.kind == "output") return add_output(n);
    std::vector<int> inputs;
    for (const std::string& from : n.inputs) inputs.push_back(layer_of_.at(from));
    const bool same = n.kind == "same" || (n.kind == "concat" && inputs.size() == 1);
    if (same || n.kind.empty()) {
      if (n.kind.empty()) leave_out(n);
      if (inputs.size() != 1) refuse_node(origin_, n, "it reads several tensors, and hands on one");
      if (same && inputs[0] >= 0 && n.shape.size() == 2 && takes_all_pixels(nth(layers, inputs[0]))) {
        nth(layers, inputs[0]).kind = "global_pool";
        nth(layers, inputs[0]).keys.clear();
      }
      layer_of_[n.name] = inputs[0];
      shape_of_[n.name] = n.shape;
      return;
    }
    layer_of_[n.name] = static_cast<int>(layers.size());
    shape_of_[n.name] = n.shape;
    layers.push_back({n.kind, n.keys, std::move(inputs), n.shape});
  }

  void add_input(const GraphNode& n) {
    if (!image_.empty()) refuse_node(origin_, n, "a second input", "networks over images or vectors have one");
    if (n.shape.size() < 2 || n.shape.size() > 5)
      refuse_node(origin_, n, "an input of these dimensions is no image and no vector");
    image_ = n.shape;
    layer_of_[n.name] = kImage;
    shape_of_[n.name] = n.shape;
  }

  /// A loss behind each of its tensors, before the layers that follow.
  void add_output(const GraphNode& n) {
    for (const std::string& from : n.inputs) {
      const auto at = layer_of_.find(from);
      if (at == layer_of_.end() || at->second < 0) continue;  // An output of another kind has its losses already.
      insert_loss(at->second, shape_of_.at(from));
    }
    layer_of_[n.name] = kNoLayer;
  }

  void insert_loss(int logits, const std::vector<std::int64_t>& shape) {
    classes = shape.size() > 1 ? shape[1] : 1;
    const int at = logits + 1;
    for (GraphLayer& l : layers)
      for (int& i : l.inputs) i += i >= at ? 1 : 0;
    for (auto& [name, i] : layer_of_) i += i >= at ? 1 : 0;
    layers.insert(layers.begin() + at, {"softmax_loss", nlohmann::ordered_json::object(), {logits}, {}});
    ++losses_;
  }

  /// What nobody here knows changes nothing, where it keeps shapes and has no parameters.
  void leave_out(const GraphNode& n) {
    const bool keeps = !n.inputs.empty() && shape_of_.at(n.inputs.front()) == n.shape && n.parameters == 0;
    if (!keeps)
      refuse_node(origin_, n, "no operator here is this one, and it changes shapes or has parameters",
                  "'rehearse list layers' says what there is");
    ++unknown[n.op];
  }

  std::string origin_;
  std::vector<std::int64_t> image_;
  std::map<std::string, int> layer_of_;
  std::map<std::string, std::vector<std::int64_t>> shape_of_;
  int losses_ = 0;
};

/// Layers [first, last] that only the last one's tensor leaves.
struct LayerRange {
  int first = 0, last = 0;
};

bool has_product(const std::vector<GraphLayer>& layers, const LayerRange& r) {
  return std::any_of(layers.begin() + r.first, layers.begin() + r.last + 1, [](const GraphLayer& l) {
    return l.kind.find("conv") != std::string::npos || l.kind == "linear";
  });
}

/// Blocks of one product or branch each, with what follows it up to the next.
std::vector<LayerRange> graph_blocks(const std::vector<GraphLayer>& layers) {
  const auto n = static_cast<int>(layers.size());
  std::vector<int> last_read(layers.size(), -1);
  int image_read = -1;
  for (int i = 0; i < n; ++i)
    for (const int from : nth(layers, i).inputs) (from == kImage ? image_read : nth(last_read, from)) = i;
  std::vector<LayerRange> out;
  int first = 0, furthest = -1;  // The last layer that reads anything before this one.
  for (int i = 0; i < n; ++i) {
    if (i > 0) furthest = std::max(furthest, nth(last_read, i - 1));
    const bool alone = std::max(furthest, image_read) <= i && (nth(last_read, i) > i || i + 1 == n);
    if (!alone) continue;
    const LayerRange unit{first, i};
    if (!out.empty() && (!has_product(layers, unit) || !has_product(layers, out.back())))
      out.back().last = i;
    else
      out.push_back(unit);
    first = i + 1;
  }
  if (out.empty() || out.back().last != n - 1) out.push_back({first, n - 1});
  return out;
}

/// Layers of a block, named as a layer list numbers them: the block's text does not tell where in the network it is.
nlohmann::ordered_json layers_of_block(const std::vector<GraphLayer>& layers, const LayerRange& range, bool begins) {
  std::map<std::string, int> count;
  std::map<int, std::string> name;
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  int before = range.first - 1;
  for (int i = range.first; i <= range.last; ++i) {
    const GraphLayer& l = nth(layers, i);
    const int number = ++count[l.kind];
    name[i] = number == 1 ? l.kind : fmt::format("{}_{}", l.kind, number);
    nlohmann::ordered_json layer{{"op", l.kind}};
    layer.update(l.keys);
    std::vector<std::string> from;
    for (const int j : l.inputs) from.push_back(j < range.first ? (begins ? "image" : "input") : name.at(j));
    if (l.inputs.size() > 1)
      layer["from"] = from;
    else if (l.inputs.at(0) != before && !(i == range.first && l.inputs[0] < range.first))
      layer["from"] = from[0];
    out.push_back(std::move(layer));
    before = i;
  }
  return out;
}

nlohmann::ordered_json graph_input_of(const std::vector<std::int64_t>& image) {
  if (image.size() == 2) return {{"features", image[1]}};
  nlohmann::ordered_json out{{"channels", image[1]}};
  if (image.size() == 5) out["depth"] = image[2];
  if (image.size() < 4) throw Error(ErrorKind::usage, "an input of one side is no image");
  out["height"] = image[image.size() - 2];
  out["width"] = image[image.size() - 1];
  return out;
}

struct BlockList {
  nlohmann::ordered_json blocks = nlohmann::ordered_json::array();
  int instances = 0;
};

BlockList listed_blocks(const LayersOfGraph& of, const std::vector<std::int64_t>& image) {
  BlockList out;
  std::vector<std::int64_t> before = image, before_last;  // What a block takes.
  for (const LayerRange& range : graph_blocks(of.layers)) {
    nlohmann::ordered_json layers = layers_of_block(of.layers, range, out.blocks.empty());
    const std::vector<std::int64_t>& after = nth(of.layers, range.last).shape;
    ++out.instances;
    if (!out.blocks.empty() && before == after && before_last == before && out.blocks.back()["layers"] == layers) {
      nlohmann::ordered_json& last = out.blocks.back();
      last["repeat"] = last.value("repeat", 1) + 1;
    } else {
      out.blocks.push_back({{"name", fmt::format("block{}", out.blocks.size() + 1)}, {"layers", std::move(layers)}});
    }
    before_last = std::exchange(before, after);
  }
  return out;
}

/// A block a line and a layer a line, as people read it.
std::string written_blocks(const nlohmann::ordered_json& list) {
  std::string out = "{\n";
  for (const auto& [key, value] : list.items())
    if (key != "blocks") out += fmt::format("  \"{}\": {},\n", key, value.dump());
  out += "  \"blocks\": [\n";
  const nlohmann::ordered_json& blocks = list["blocks"];
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    out += fmt::format("    {{ \"name\": {}, ", blocks[b]["name"].dump());
    if (blocks[b].contains("repeat")) out += fmt::format("\"repeat\": {}, ", blocks[b]["repeat"].dump());
    out += "\"layers\": [\n";
    const nlohmann::ordered_json& layers = blocks[b]["layers"];
    for (std::size_t i = 0; i < layers.size(); ++i)
      out += fmt::format("      {}{}\n", layers[i].dump(), i + 1 < layers.size() ? "," : " ] }");
    if (b + 1 < blocks.size()) out.insert(out.size() - 1, ",");
  }
  return out + "  ]\n}\n";
}

}  // namespace

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  constexpr std::int64_t kMost = std::int64_t{1} << 60;  // Of what a damaged file says; sums of some stay whole.
  std::int64_t out = 1;
  for (const std::int64_t n : shape) out = n > 0 && out > kMost / n ? kMost : out * n;
  return out;
}

double forward_flops_of(const Network& network, std::int64_t tokens) {
  Flops out{};
  for (std::size_t b = 0; b < network.blocks.size(); ++b)
    for (const OpSpec& op : network.blocks[b].ops)
      out += static_cast<double>(network.repeat[b]) * forward_matmul_flops(network.blocks[b], op, 1, tokens, false);
  return out.value();
}

ImportedGraph layers_of(Graph graph, const std::string& origin) {
  ImportedGraph out;
  out.name = graph.name;
  out.nodes = static_cast<int>(graph.nodes.size());
  for (const GraphNode& n : graph.nodes) out.parameters += n.parameters;
  const LayersOfGraph of(graph, origin);
  out.unknown = of.unknown;
  nlohmann::ordered_json list{{"schema", kNetworkSchema},
                              {"description", fmt::format("{}, from {}", graph.name, origin)},
                              {"input", graph_input_of(of.image())},
                              {"classes", of.classes}};
  BlockList blocks = listed_blocks(of, of.image());
  list["blocks"] = std::move(blocks.blocks);
  out.blocks = static_cast<int>(list["blocks"].size());
  out.instances = blocks.instances;
  out.layer_list = written_blocks(list);
  const Network network = build_network(parse_json(out.layer_list, origin), origin, graph.name);
  if (network.parameter_count() != out.parameters)
    throw Error(ErrorKind::usage,
                fmt::format("the graph has {} parameters, and the layers that it became {}", out.parameters,
                            network.parameter_count()),
                origin, "a parameter that several nodes share is none of a layer list");
  out.forward_flops = forward_flops_of(network, 0);
  return out;
}

namespace {

ImportedGraph imported(const std::string& text, const std::string& origin) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text[first] != '{') return layers_of(read_onnx_graph(text, origin), origin);
  FxDocument document = read_fx_document(parse_json(text, origin), origin);
  if (reads_tokens(document)) return transformer_of(document, origin);
  const std::int64_t parameters = document.parameters;
  ImportedGraph out = layers_of(graph_of(std::move(document), origin), origin);
  if (out.parameters != parameters)
    throw Error(ErrorKind::usage,
                fmt::format("the module has {} parameters, and the operators that ran {}", parameters, out.parameters),
                origin, "a parameter that several operators share, or none uses, is none of a layer list");
  return out;
}

}  // namespace

ImportedGraph import_graph(const std::string& text, const std::string& origin) {
  try {
    return imported(text, origin);
  } catch (const std::out_of_range&) {
    throw Error(ErrorKind::usage, "an operator with fewer inputs or dimensions than it needs", origin,
                "the file is damaged, or another program wrote it");
  }
}

}  // namespace rehearse
