// Calls as rehearse_graph.py writes them, by the class of the module or the name of the function, become layer kinds.

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/import/graph/fx_node.hpp"

namespace rehearse {
namespace {

/// A number, or one per side where they differ.
void put_sizes(FxNode& n, const std::string& to, const std::string& key, std::size_t place = SIZE_MAX) {
  const nlohmann::json* found = n.find(key, place);
  if (found == nullptr || (found->is_array() && found->empty())) return;
  const bool equal = found->is_array() && std::all_of(found->begin(), found->end(),
                                                      [&](const nlohmann::json& v) { return v == found->front(); });
  n.out.keys[to] = equal ? nlohmann::ordered_json(found->front()) : nlohmann::ordered_json(*found);
}

void convolution(FxNode& n, const std::string& kind, std::size_t out_dimension) {
  const std::vector<std::int64_t>& weight = n.parameter("weight");
  if (weight.size() < 3) throw Error(ErrorKind::usage, "a convolution over one side");
  const nlohmann::json* padding = n.find("padding");
  const nlohmann::json* groups = n.find("groups");
  const std::int64_t g = groups == nullptr ? 1 : groups->get<std::int64_t>();
  n.out.kind = kind;
  n.out.keys["out"] = weight.at(out_dimension) * (out_dimension == 1 ? g : 1);
  put_sizes(n, "kernel", "kernel_size");
  put_sizes(n, "stride", "stride");
  if (padding != nullptr && padding->is_string())
    n.out.keys["same"] = *padding == "same";
  else
    put_sizes(n, "padding", "padding");
  put_sizes(n, "dilation", "dilation");
  if (g != 1) n.out.keys["groups"] = g;
  if (n.parameters.contains("bias")) n.out.keys["bias"] = true;
}

void conv2d(FxNode& n) { convolution(n, n.parameter("weight").size() == 5 ? "conv3d" : "conv2d", 0); }
void transposed(FxNode& n) { convolution(n, "transposed_conv", 1); }

void pool(FxNode& n, const std::string& kind) {
  n.out.kind = kind;
  put_sizes(n, "kernel", "kernel_size", 0);
  put_sizes(n, "stride", "stride", 1);
  put_sizes(n, "padding", "padding", 2);
  const nlohmann::json* ceil = n.find("ceil_mode");
  if (ceil != nullptr && *ceil == true) n.out.keys["ceil"] = true;
}
void max_pool(FxNode& n) { pool(n, "max_pool"); }
void average_pool(FxNode& n) { pool(n, "average_pool"); }

/// To one pixel, or to the sides that there are.
void adaptive_pool(FxNode& n) {
  const std::vector<std::int64_t>& to = n.out.shape;
  if (to == n.from) {
    n.out.kind = "same";
  } else if (to.size() == 4 && to[2] == 1 && to[3] == 1) {
    n.out.kind = "average_pool";
    n.out.keys["kernel"] = n.from.at(2) == n.from.at(3) ? nlohmann::ordered_json(n.from[2])
                                                        : nlohmann::ordered_json({n.from[2], n.from[3]});
  }
}

void batch_norm(FxNode& n) {
  n.out.kind = "batch_norm";
  if (const nlohmann::json* eps = n.find("eps"); eps != nullptr && *eps != 1e-5) n.out.keys["eps"] = *eps;
}

void linear(FxNode& n) {
  n.out.kind = "linear";
  n.out.keys["out"] = n.parameter("weight").at(0);
  if (!n.parameters.contains("bias")) n.out.keys["bias"] = false;
}

void dropout(FxNode& n) {
  const nlohmann::json* p = n.find("p", 0);
  n.out.kind = "dropout";
  n.out.keys["p"] = p == nullptr ? 0.5 : p->get<double>();
}

void leaky_relu(FxNode& n) {
  const nlohmann::json* slope = n.find("negative_slope", 0);
  n.out.kind = "leaky_relu";
  n.out.keys["slope"] = slope == nullptr ? 0.01 : slope->get<double>();
}

void upsample(FxNode& n) {
  const std::vector<std::int64_t>& to = n.out.shape;
  if (to.size() != 4 || n.from.size() != 4 || n.from[2] == 0 || to[2] % n.from[2] != 0 ||
      to[2] / n.from[2] * n.from[3] != to[3])
    return;
  const nlohmann::json* mode = n.find("mode", 2);
  if (to[2] == n.from[2]) {
    n.out.kind = "same";
    return;
  }
  n.out.kind = "upsample";
  n.out.keys["scale"] = to[2] / n.from[2];
  if (mode != nullptr && *mode == "bilinear") n.out.keys["mode"] = "bilinear";
  n.out.inputs.resize(1);
}

/// Features are the elements of a sample already.
void flatten(FxNode& n) {
  if (n.out.shape.size() == 2 && elements_of(n.out.shape) == elements_of(n.from)) n.out.kind = "same";
}

using FxRule = void (*)(FxNode&);
const std::map<std::string, FxRule>& fx_rules() {
  static const std::map<std::string, FxRule> kRules{
      {"placeholder", [](FxNode& n) { n.out.kind = "input"; }},
      {"output", [](FxNode& n) { n.out.kind = "output"; }},
      {"Conv2d", conv2d},
      {"Conv3d", conv2d},
      {"ConvTranspose2d", transposed},
      {"BatchNorm2d", batch_norm},
      {"BatchNorm3d", batch_norm},
      {"Linear", linear},
      {"ReLU", [](FxNode& n) { n.out.kind = "relu"; }},
      {"relu", [](FxNode& n) { n.out.kind = "relu"; }},
      {"relu_", [](FxNode& n) { n.out.kind = "relu"; }},
      {"LeakyReLU", leaky_relu},
      {"leaky_relu", leaky_relu},
      {"Tanh", [](FxNode& n) { n.out.kind = "tanh"; }},
      {"tanh", [](FxNode& n) { n.out.kind = "tanh"; }},
      {"MaxPool2d", max_pool},
      {"max_pool2d", max_pool},
      {"AvgPool2d", average_pool},
      {"avg_pool2d", average_pool},
      {"AdaptiveAvgPool2d", adaptive_pool},
      {"adaptive_avg_pool2d", adaptive_pool},
      {"Dropout", dropout},
      {"Dropout2d", dropout},
      {"dropout", dropout},
      {"Identity", [](FxNode& n) { n.out.kind = "same"; }},
      {"contiguous", [](FxNode& n) { n.out.kind = "same"; }},
      {"Flatten", flatten},
      {"flatten", flatten},
      {"view", flatten},
      {"reshape", flatten},
      {"Upsample", upsample},
      {"interpolate", upsample},
      {"add", [](FxNode& n) { n.out.kind = "add"; }},
      {"iadd", [](FxNode& n) { n.out.kind = "add"; }},
      {"add_", [](FxNode& n) { n.out.kind = "add"; }},
      {"cat", [](FxNode& n) { n.out.kind = "concat"; }},
      {"concat", [](FxNode& n) { n.out.kind = "concat"; }},
  };
  return kRules;
}

}  // namespace

Graph graph_of(FxDocument document, const std::string& origin) {
  Graph out;
  out.name = std::move(document.name);
  for (FxNode& n : document.nodes) {
    try {
      if (const auto rule = fx_rules().find(n.out.op); rule != fx_rules().end()) rule->second(n);
    } catch (Error& e) {
      if (e.where.empty()) e.where = fmt::format("{}: {}", origin, n.out.name);
      throw;
    } catch (const nlohmann::json::exception&) {
      throw Error(ErrorKind::usage, "an option of this operator has another type than PyTorch gives it",
                  fmt::format("{}: {}", origin, n.out.name));
    }
    out.nodes.push_back(std::move(n.out));
  }
  return out;
}

}  // namespace rehearse
