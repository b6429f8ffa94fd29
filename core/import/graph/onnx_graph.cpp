// ONNX models (github.com/onnx/onnx, onnx/onnx.proto): the fields of the protobuf messages that a network's operators
// and sizes stand in. Numbers of fields are of that file; weights are passed over.

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/import/graph/graph.hpp"
#include "core/import/protobuf_message.hpp"

namespace rehearse {
namespace {

using GraphSizes = std::vector<std::int64_t>;

/// Dimensions and, of a short list of whole numbers, its elements.
struct OnnxTensor {
  std::string name;
  GraphSizes shape, values;
};

struct OnnxNode {
  std::string op, name;
  std::vector<std::string> inputs, outputs;
  std::map<std::string, GraphSizes> ints;
  std::map<std::string, double> reals;
  std::map<std::string, std::string> texts;
  std::map<std::string, OnnxTensor> tensors;
};

OnnxTensor onnx_tensor_of(std::string_view bytes, const ProtobufFile& file) {
  OnnxTensor out;
  std::string_view raw;
  std::uint64_t type = 0;
  for (ProtobufMessage m(bytes, file); m.next();) {
    if (m.field == 1) m.append_numbers(out.shape);   // dims
    if (m.field == 2) type = m.value;                // data_type
    if (m.field == 7) m.append_numbers(out.values);  // int64_data
    if (m.field == 8) out.name = m.payload;
    if (m.field == 9) raw = m.payload;  // raw_data
  }
  constexpr std::uint64_t kInt64 = 7, kFloat = 1;
  constexpr std::size_t kShort = 64;  // Bytes: sizes, not weights.
  for (std::size_t at = 0; type == kInt64 && raw.size() <= kShort && at + 8 <= raw.size(); at += 8) {
    std::int64_t v = 0;
    std::memcpy(&v, raw.data() + at, 8);
    out.values.push_back(v);
  }
  for (std::size_t at = 0; type == kFloat && raw.size() <= kShort && at + 4 <= raw.size(); at += 4) {
    float v = 0;
    std::memcpy(&v, raw.data() + at, 4);
    out.values.push_back(static_cast<std::int64_t>(v));  // Scales of Resize.
  }
  return out;
}

void onnx_attribute_of(std::string_view bytes, const ProtobufFile& file, OnnxNode& to) {
  std::string name, text;
  GraphSizes ints;
  float real = 0;
  bool has_real = false;
  std::optional<OnnxTensor> tensor;
  for (ProtobufMessage m(bytes, file); m.next();) {
    if (m.field == 1) name = m.payload;
    if (m.field == 2) {  // f
      const auto bits = static_cast<std::uint32_t>(m.value);
      std::memcpy(&real, &bits, sizeof real);
      has_real = true;
    }
    if (m.field == 3 || m.field == 8) m.append_numbers(ints);    // i, ints
    if (m.field == 4) text = m.payload;                          // s
    if (m.field == 5) tensor = onnx_tensor_of(m.payload, file);  // t
  }
  if (has_real) to.reals[name] = real;
  if (tensor) to.tensors[name] = *tensor;
  to.ints[name] = std::move(ints);
  to.texts[name] = std::move(text);
}

OnnxNode onnx_node_of(std::string_view bytes, const ProtobufFile& file) {
  OnnxNode out;
  for (ProtobufMessage m(bytes, file); m.next();) {
    if (m.field == 1) out.inputs.emplace_back(m.payload);
    if (m.field == 2) out.outputs.emplace_back(m.payload);
    if (m.field == 3) out.name = m.payload;
    if (m.field == 4) out.op = m.payload;
    if (m.field == 5) onnx_attribute_of(m.payload, file, out);
  }
  return out;
}

/// Calls f(message) at each field `number` of a message.
template <class F>
void each_field(std::string_view bytes, const ProtobufFile& file, int number, const F& f) {
  for (ProtobufMessage m(bytes, file); m.next();)
    if (m.field == number) f(m);
}

/// Name and sizes of an input or output: ValueInfoProto.type.tensor_type.shape.dim.dim_value.
OnnxTensor onnx_value_of(std::string_view bytes, const ProtobufFile& file) {
  OnnxTensor out;
  each_field(bytes, file, 1, [&](const ProtobufMessage& name) { out.name = name.payload; });
  const auto add_size = [&](const ProtobufMessage& dim) {
    std::int64_t size = 1;  // A size that has a name is the batch's.
    each_field(dim.payload, file, 1, [&](const ProtobufMessage& m) { size = static_cast<std::int64_t>(m.value); });
    out.shape.push_back(size);
  };
  each_field(bytes, file, 2, [&](const ProtobufMessage& type) {
    each_field(type.payload, file, 1, [&](const ProtobufMessage& tensor) {
      each_field(tensor.payload, file, 2,
                 [&](const ProtobufMessage& shape) { each_field(shape.payload, file, 1, add_size); });
    });
  });
  return out;
}

struct OnnxGraph {
  std::string name;
  std::vector<OnnxNode> nodes;
  std::map<std::string, OnnxTensor> initial, inputs;
  std::vector<std::string> outputs;
};

OnnxGraph onnx_graph_of(std::string_view bytes, const ProtobufFile& file) {
  OnnxGraph out;
  for (ProtobufMessage m(bytes, file); m.next();) {
    if (m.field == 1) out.nodes.push_back(onnx_node_of(m.payload, file));
    if (m.field == 2) out.name = m.payload;
    if (m.field == 5) {
      OnnxTensor t = onnx_tensor_of(m.payload, file);
      out.initial[t.name] = std::move(t);
    }
    if (m.field == 11) {
      OnnxTensor t = onnx_value_of(m.payload, file);
      out.inputs[t.name] = std::move(t);
    }
    if (m.field == 12) out.outputs.push_back(onnx_value_of(m.payload, file).name);
  }
  return out;
}

/// Turns ONNX's nodes into layers, with the shapes of what they make.
class OnnxLayers {
 public:
  OnnxLayers(const OnnxGraph& graph, const std::string& origin) : graph_(graph), origin_(origin) {
    out.name = graph.name.empty() ? "network" : graph.name;
    for (const auto& [name, input] : graph.inputs)
      if (!graph.initial.contains(name)) out.nodes.push_back(made(name, "Input", "input", {}, input.shape));
    constants_ = graph.initial;
    for (const OnnxNode& n : graph.nodes) add(n);
    out.nodes.push_back({.name = "output of the graph",
                         .op = "Output",
                         .kind = "output",
                         .inputs = graph.outputs,
                         .keys = {},
                         .shape = {}});
  }
  Graph out;

 private:
  GraphNode made(const std::string& name, const std::string& op, const std::string& kind,
                 std::vector<std::string> inputs, GraphSizes shape) {
    shapes_[name] = shape;
    return {.name = name,
            .op = op,
            .kind = kind,
            .inputs = std::move(inputs),
            .keys = nlohmann::ordered_json::object(),
            .shape = std::move(shape)};
  }
  [[noreturn]] void refuse(const OnnxNode& n, const std::string& what) const {
    throw Error(ErrorKind::usage, what, fmt::format("{}: {} ({})", origin_, n.name, n.op));
  }
  [[nodiscard]] const GraphSizes* ints(const OnnxNode& n, const std::string& key) const {
    const auto at = n.ints.find(key);
    return at == n.ints.end() || at->second.empty() ? nullptr : &at->second;
  }
  [[nodiscard]] GraphSizes sizes(const OnnxNode& n, const std::string& key, std::size_t sides,
                                 std::int64_t fallback) const {
    const GraphSizes* found = ints(n, key);
    return found == nullptr ? GraphSizes(sides, fallback) : *found;
  }
  static nlohmann::ordered_json plain(const GraphSizes& s) {
    return std::all_of(s.begin(), s.end(), [&](std::int64_t v) { return v == s.front(); })
               ? nlohmann::ordered_json(s.front())
               : nlohmann::ordered_json(s);
  }

  /// Sides after a window, and its keys.
  GraphSizes windowed(const OnnxNode& n, GraphNode& to, const GraphSizes& kernel, bool convolution) {
    const GraphSizes& from = shapes_.at(n.inputs.at(0));
    const std::size_t sides = kernel.size();
    const GraphSizes stride = sizes(n, "strides", sides, 1), dilation = sizes(n, "dilations", sides, 1);
    const GraphSizes pads = sizes(n, "pads", 2 * sides, 0);
    const GraphSizes* ceil = ints(n, "ceil_mode");
    const bool up = ceil != nullptr && ceil->front() == 1;
    if (from.size() != sides + 2 || stride.size() != sides || dilation.size() != sides || pads.size() != 2 * sides)
      refuse(n, "windows of other sides than the image's");
    if (const auto pad = n.texts.find("auto_pad");
        pad != n.texts.end() && !pad->second.empty() && pad->second != "NOTSET")
      refuse(n, "padding that the sizes decide: export with explicit pads");
    GraphSizes out_sides;
    for (std::size_t i = 0; i < sides; ++i) {
      if (pads[i] != pads[sides + i]) refuse(n, "padding that differs before and behind");
      const std::int64_t room = from[i + 2] + 2 * pads[i] - dilation[i] * (kernel[i] - 1) - 1;
      out_sides.push_back((room + (up ? stride[i] - 1 : 0)) / std::max<std::int64_t>(1, stride[i]) + 1);
    }
    to.keys["kernel"] = plain(kernel);
    to.keys["stride"] = plain(stride);
    to.keys["padding"] = plain(GraphSizes(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(sides)));
    if (convolution) to.keys["dilation"] = plain(dilation);
    if (up) to.keys["ceil"] = true;
    return out_sides;
  }

  const OnnxTensor& weight(const OnnxNode& n, std::size_t i) const {
    const auto at = i < n.inputs.size() ? constants_.find(n.inputs[i]) : constants_.end();
    if (at == constants_.end()) refuse(n, "its weights are no constants of the file");
    return at->second;
  }

  void convolution(const OnnxNode& n, GraphNode& to) {
    const OnnxTensor& w = weight(n, 1);
    if (w.shape.size() < 4) refuse(n, "a convolution over one side");
    const GraphSizes* group = ints(n, "group");
    to.kind = w.shape.size() == 5 ? "conv3d" : "conv2d";
    to.keys["out"] = w.shape[0];
    const GraphSizes out_sides = windowed(n, to, GraphSizes(w.shape.begin() + 2, w.shape.end()), true);
    if (group != nullptr && group->front() != 1) to.keys["groups"] = group->front();
    to.parameters = elements_of(w.shape);
    if (n.inputs.size() > 2) {
      to.keys["bias"] = true;
      to.parameters += elements_of(weight(n, 2).shape);
    }
    to.shape = {shapes_.at(n.inputs[0]).at(0), w.shape[0]};
    to.shape.insert(to.shape.end(), out_sides.begin(), out_sides.end());
  }

  void pool(const OnnxNode& n, GraphNode& to, const char* kind) {
    const GraphSizes* kernel = ints(n, "kernel_shape");
    if (kernel == nullptr) refuse(n, "a pool without a window");
    const GraphSizes& from = shapes_.at(n.inputs.at(0));
    to.kind = kind;
    const GraphSizes out_sides = windowed(n, to, *kernel, false);
    to.shape = {from.at(0), from.at(1)};
    to.shape.insert(to.shape.end(), out_sides.begin(), out_sides.end());
  }

  void global_pool(const OnnxNode& n, GraphNode& to) {
    const GraphSizes& from = shapes_.at(n.inputs.at(0));
    if (from.size() != 4) refuse(n, "a mean over other than two sides");
    to.kind = "average_pool";
    to.keys["kernel"] = plain({from[2], from[3]});
    to.shape = {from[0], from[1], 1, 1};
  }

  void gemm(const OnnxNode& n, GraphNode& to) {
    const OnnxTensor& w = weight(n, 1);
    const GraphSizes* turned = ints(n, "transB");
    if (w.shape.size() != 2) refuse(n, "a product with no matrix");
    const std::int64_t outputs = turned != nullptr && turned->front() == 1 ? w.shape[0] : w.shape[1];
    to.kind = "linear";
    to.keys["out"] = outputs;
    to.parameters = elements_of(w.shape);
    if (n.inputs.size() > 2)
      to.parameters += elements_of(weight(n, 2).shape);
    else
      to.keys["bias"] = false;
    to.shape = {shapes_.at(n.inputs[0]).at(0), outputs};
  }

  void batch_norm(const OnnxNode& n, GraphNode& to) {
    to.kind = "batch_norm";
    to.parameters = elements_of(weight(n, 1).shape) + elements_of(weight(n, 2).shape);
    if (const auto eps = n.reals.find("epsilon"); eps != n.reals.end())
      to.keys["eps"] = std::stod(fmt::format("{:.6g}", eps->second));
    to.shape = shapes_.at(n.inputs.at(0));
  }

  void concat(const OnnxNode& n, GraphNode& to) {
    to.kind = "concat";
    to.shape = shapes_.at(n.inputs.at(0));
    to.shape.at(1) = 0;
    for (const std::string& i : n.inputs) to.shape[1] += shapes_.at(i).at(1);
  }

  void resize(const OnnxNode& n, GraphNode& to) {
    const GraphSizes& from = shapes_.at(n.inputs.at(0));
    const auto last = constants_.find(n.inputs.back());
    if (last == constants_.end() || last->second.values.size() != 4 || from.size() != 4)
      refuse(n, "a size that is no constant");
    const bool by_sizes = n.inputs.size() == 4;
    const std::int64_t scale =
        by_sizes ? last->second.values[2] / std::max<std::int64_t>(1, from[2]) : last->second.values[2];
    to.shape = {from[0], from[1], from[2] * scale, from[3] * scale};
    if (by_sizes && (to.shape[2] != last->second.values[2] || to.shape[3] != last->second.values[3]))
      refuse(n, "sides that no whole number multiplies");
    to.kind = scale == 1 ? "same" : "upsample";
    if (scale != 1) to.keys["scale"] = scale;
    const auto mode = n.texts.find("mode");
    if (scale != 1 && mode != n.texts.end() && mode->second == "linear") to.keys["mode"] = "bilinear";
  }

  void add(const OnnxNode& n) {
    // Of parameters with the same values the exporter keeps one.
    if (n.op == "Identity" && constants_.contains(n.inputs.at(0))) {
      constants_[n.outputs.at(0)] = constants_.at(n.inputs[0]);
      return;
    }
    if (n.op == "Constant") {
      if (const auto value = n.tensors.find("value"); value != n.tensors.end())
        constants_[n.outputs.at(0)] = value->second;
      return;
    }
    std::vector<std::string> inputs;  // Tensors that are no constants.
    for (const std::string& i : n.inputs)
      if (shapes_.contains(i)) inputs.push_back(i);
    if (inputs.empty()) {  // Made of constants alone: a size.
      return;
    }
    GraphNode to = made(n.outputs.at(0), n.op, "", inputs, shapes_.at(inputs[0]));
    const GraphSizes from = to.shape;
    static const std::map<std::string, const char*> kPlain{
        {"Relu", "relu"}, {"Tanh", "tanh"}, {"Identity", "same"}, {"Dropout", "dropout"}, {"LeakyRelu", "leaky_relu"}};
    if (const auto plain_kind = kPlain.find(n.op); plain_kind != kPlain.end()) to.kind = plain_kind->second;
    if (n.op == "Add" && inputs.size() == 2) to.kind = "add";
    if (n.op == "Conv") convolution(n, to);
    if (n.op == "MaxPool") pool(n, to, "max_pool");
    if (n.op == "AveragePool") pool(n, to, "average_pool");
    if (n.op == "GlobalAveragePool") global_pool(n, to);
    if (n.op == "Gemm") gemm(n, to);
    if (n.op == "BatchNormalization") batch_norm(n, to);
    if (n.op == "Concat") concat(n, to);
    if (n.op == "Resize" || n.op == "Upsample") resize(n, to);
    if (n.op == "Flatten" || n.op == "Reshape") {
      to.kind = "same";
      to.shape = {from.at(0), elements_of(from) / std::max<std::int64_t>(1, from[0])};
    }
    if (to.kind.empty()) to.parameters = 0;
    shapes_[to.name] = to.shape;
    out.nodes.push_back(std::move(to));
  }

  const OnnxGraph& graph_;
  const std::string& origin_;
  std::map<std::string, GraphSizes> shapes_;
  std::map<std::string, OnnxTensor> constants_;
};

}  // namespace

Graph read_onnx_graph(std::string_view bytes, const std::string& origin) {
  const ProtobufFile file{origin, "this is no ONNX model, or it was cut off",
                          "give what torch.onnx.export wrote, or the JSON of rehearse_graph.py"};
  std::string_view graph;
  for (ProtobufMessage m(bytes, file); m.next();)
    if (m.field == 7) graph = m.payload;  // ModelProto.graph
  if (graph.empty())
    throw Error(ErrorKind::usage, "this is no ONNX model and no JSON of rehearse_graph.py", origin,
                "import topologies/graph/rehearse_graph.py in your Python: it writes the graph of a module");
  const OnnxGraph read = onnx_graph_of(graph, file);
  return OnnxLayers(read, origin).out;
}

}  // namespace rehearse
