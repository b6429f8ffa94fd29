#include "core/import/graph/transformer_events.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string_view>

#include "core/base/index.hpp"

namespace rehearse {
namespace {

using Sizes = std::vector<std::int64_t>;
using EventKind = GraphEvent::Kind;

template <std::size_t N>
bool one_of(std::string_view op, const std::array<std::string_view, N>& names) {
  return std::find(names.begin(), names.end(), op) != names.end();
}

/// Calls whose result has the numbers of what they read, elsewhere or in another type.
bool moves(std::string_view op) {
  return one_of(
      op, std::to_array<std::string_view>(
              {"t",       "T",       "get",     "transpose", "permute",   "swapaxes", "getitem", "contiguous",
               "view",    "reshape", "flatten", "unflatten", "unsqueeze", "squeeze",  "expand",  "to",
               "type_as", "float",   "half",    "clone",     "chunk",     "split",    "unbind",  "repeat_interleave",
               "slice",   "narrow",  "Dropout", "dropout",   "Identity",  "detach"}));
}
bool adds(std::string_view op) { return one_of(op, std::to_array<std::string_view>({"add", "iadd", "add_"})); }
bool multiplies(std::string_view op) {
  return one_of(op, std::to_array<std::string_view>({"matmul", "mm", "bmm", "einsum", "baddbmm"}));
}

class EventReader {
 public:
  explicit EventReader(const FxDocument& document) : nodes_(document.nodes) {
    out.added.resize(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      at_[nodes_[i].out.name] = i;
      read(i);
    }
  }
  TransformerEvents out;

 private:
  [[nodiscard]] const FxNode& node(std::size_t i) const { return nodes_[i]; }
  [[nodiscard]] std::size_t input(std::size_t i, std::size_t k) const { return at_.at(node(i).out.inputs.at(k)); }
  [[nodiscard]] std::size_t inputs(std::size_t i) const { return node(i).out.inputs.size(); }
  [[nodiscard]] const Sizes& shape(std::size_t i) const { return node(i).out.shape; }

  /// Where the numbers of a node come from, through calls that only move them.
  [[nodiscard]] std::size_t source(std::size_t i) const {
    while (inputs(i) > 0 && moves(node(i).out.op)) i = input(i, 0);
    return i;
  }
  [[nodiscard]] bool is_parameter(std::size_t i) const { return node(source(i)).out.op == "parameter"; }

  /// Whether something within `depth` calls before it satisfies `found`.
  bool before(std::size_t i, int depth, const std::function<bool(const FxNode&)>& found) const {
    for (std::size_t k = 0; depth > 0 && k < inputs(i); ++k) {
      const std::size_t from = input(i, k);
      if (found(node(from)) || before(from, depth - 1, found)) return true;
    }
    return false;
  }

  GraphEvent& put(EventKind kind, std::size_t i, std::int64_t first, std::int64_t second) {
    out.events.push_back({.kind = kind, .first = first, .second = second, .what = {}, .node = i, .weight = {}});
    return out.events.back();
  }

  void read(std::size_t i) {
    const std::string& op = node(i).out.op;
    if (op == "placeholder" && out.tokens == 0 && shape(i).size() == 2) {
      out.batch = shape(i)[0];
      out.tokens = shape(i)[1];
    }
    if (op == "cos" || op == "sin" || op == "polar") out.turns = true;
    if (op == "constant" && node(i).module.find("cos") != std::string::npos) out.turns = true;
    if (op == "topk") out.experts = true;
    if (one_of(op, std::to_array<std::string_view>({"masked_fill", "masked_fill_", "where", "triu", "tril"})))
      out.masked = true;
    if (op == "Embedding" || op == "embedding") return table(i);
    if (adds(op)) return addition(i);
    if (op == "Linear" || op == "NonDynamicallyQuantizableLinear") return module_product(i);
    if (op == "linear" || op == "addmm") return call_product(i);
    if (multiplies(op)) return multiplication(i);
    if (op == "MultiheadAttention") return whole_attention(i);
    if (op == "scaled_dot_product_attention") return fused_attention(i);
    if (op == "softmax") return softmax(i);
    if (op == "Dropout" || op == "dropout") return dropout(i);
    norm(i, op);
    activation(i, op);
  }

  void table(std::size_t i) {
    const bool call = node(i).out.op == "embedding";
    const Sizes weight = call ? inputs(i) > 1 ? shape(source(input(i, 1))) : Sizes{} : node(i).parameter("weight");
    if (weight.size() != 2) return;
    put(EventKind::table, i, weight[0], weight[1]).weight =
        call ? node(source(input(i, 1))).module : node(i).module + ".weight";
  }

  /// Rows of positions, a bias, a mask, or a branch that joins.
  void addition(std::size_t i) {
    for (std::size_t k = 0; k < inputs(i); ++k) {
      const std::size_t from = source(input(i, k));
      const Sizes& s = shape(from);
      if (node(from).out.op == "parameter" && s.size() >= 2 && s.back() == shape(i).back())
        put(EventKind::table, i, s[s.size() - 2], s.back()).weight = node(from).module;
      if (node(from).out.op == "parameter" && s.size() == 1 && inputs(i) == 2) bias(source(input(i, 1 - k)));
      if (node(from).out.op == "constant" && s.size() >= 2 && s.back() == out.tokens && s[s.size() - 2] == out.tokens)
        out.masked = true;
    }
    if (inputs(i) == 2 && !is_parameter(input(i, 0)) && !is_parameter(input(i, 1)))
      for (std::size_t k = 0; k < 2; ++k) out.added[source(input(i, k))] = true;
  }
  void bias(std::size_t product) {
    for (GraphEvent& e : out.events)
      if (e.kind == EventKind::product && e.node == product) e.bias = true;
  }

  void module_product(std::size_t i) {
    const Sizes& weight = node(i).parameter("weight");
    if (weight.size() != 2) return;
    GraphEvent& e = put(EventKind::product, i, weight[1], weight[0]);
    e.bias = node(i).parameters.contains("bias");
    e.weight = node(i).module + ".weight";
  }
  void call_product(std::size_t i) {
    const bool bias_first = node(i).out.op == "addmm";
    if (inputs(i) < 2) return;
    const std::size_t x = input(i, bias_first ? 1 : 0), w = input(i, bias_first ? inputs(i) - 1 : 1);
    if (!is_parameter(w) || shape(x).empty() || shape(i).empty()) return;
    GraphEvent& e = put(EventKind::product, i, shape(x).back(), shape(i).back());
    e.bias = inputs(i) == 3;
    e.weight = node(source(w)).module;
  }
  void multiplication(std::size_t i) {
    for (std::size_t k = 0; k < inputs(i) && inputs(i) == 2; ++k) {
      const Sizes& weight = shape(source(input(i, k)));
      const Sizes& x = shape(input(i, 1 - k));
      if (!is_parameter(input(i, k)) || weight.size() < 2 || x.empty() || x.back() == 0) continue;
      put(EventKind::product, i, x.back(), elements_of(weight) / x.back()).weight = node(source(input(i, k))).module;
      return;
    }
  }

  void whole_attention(std::size_t i) {
    const Sizes& weight = node(i).parameter("in_proj_weight");
    const nlohmann::json* heads = node(i).find("num_heads");
    if (weight.size() != 2 || heads == nullptr || !heads->is_number_integer()) return;
    const std::int64_t h = weight[1], n = std::max<std::int64_t>(1, heads->get<std::int64_t>());
    put(EventKind::product, i, h, weight[0]).bias = node(i).parameters.contains("in_proj_bias");
    put(EventKind::attention, i, n, h / n);
    put(EventKind::product, i, h, h).bias = node(i).parameters.contains("out_proj.bias");
    const nlohmann::json* p = node(i).find("dropout");
    if (p != nullptr && p->is_number()) out.attention_dropout = std::max(out.attention_dropout, p->get<double>());
  }
  void fused_attention(std::size_t i) {
    const Sizes& q = shape(i);
    if (q.size() < 3) return;
    put(EventKind::attention, i, elements_of(Sizes(q.begin() + 1, q.end() - 2)), q.back());
    const nlohmann::json* causal = node(i).find("is_causal");
    out.masked |= inputs(i) > 3 || (causal != nullptr && *causal == true);
    const nlohmann::json* p = node(i).find("dropout_p");
    if (p != nullptr && p->is_number()) out.attention_dropout = std::max(out.attention_dropout, p->get<double>());
  }
  /// Of scores, which a product of two activations made.
  void softmax(std::size_t i) {
    const Sizes& s = shape(i);
    if (s.size() < 3 || s.back() != out.tokens || s[s.size() - 2] != out.tokens) return;
    std::size_t from = i;
    while (inputs(from) > 0 && !multiplies(node(from).out.op)) from = input(from, 0);
    if (!multiplies(node(from).out.op) || inputs(from) < 2) return;
    const Sizes& q = shape(input(from, node(from).out.op == "baddbmm" ? 1 : 0));
    const std::int64_t all = elements_of(Sizes(s.begin(), s.end() - 2));
    put(EventKind::attention, i, all / std::max<std::int64_t>(1, out.batch), q.empty() ? 0 : q.back());
  }

  void dropout(std::size_t i) {
    const nlohmann::json* found = node(i).find("p", 0);
    const double p = found != nullptr && found->is_number() ? found->get<double>() : 0;
    const nlohmann::json* training = node(i).find("training", 1);
    if (training != nullptr && *training == false) return;
    const bool layers = std::any_of(out.events.begin(), out.events.end(),
                                    [](const GraphEvent& e) { return e.kind == EventKind::product; });
    const bool of_scores = inputs(i) > 0 && node(input(i, 0)).out.op == "softmax";
    double& to = of_scores ? out.attention_dropout : layers ? out.hidden_dropout : out.embedding_dropout;
    to = std::max(to, p);
  }

  void norm(std::size_t i, const std::string& op) {
    const bool layer = op == "LayerNorm" || op == "layer_norm", rms = op == "RMSNorm" || op == "rms_norm";
    if (layer || rms) {
      GraphEvent& e = put(EventKind::norm, i, 0, 0);
      e.what = layer ? "layer_norm" : "rms_norm";
      const nlohmann::json* eps = node(i).find("eps");
      if (eps != nullptr && eps->is_number()) e.eps = eps->get<double>();
    } else if ((op == "rsqrt" || op == "sqrt" || op == "std") && !shape(i).empty() && shape(i).back() == 1) {
      const bool centred =
          op == "std" || before(i, 5, [](const FxNode& n) { return n.out.op == "sub" || n.out.op == "var"; });
      put(EventKind::norm, i, 0, 0).what = centred ? "layer_norm" : "rms_norm";
    }
  }

  void activation(std::size_t i, const std::string& op) {
    static const std::map<std::string, std::string> kNames{
        {"GELU", "gelu"}, {"gelu", "gelu"}, {"erf", "gelu"},     {"ReLU", "relu"}, {"relu", "relu"}, {"relu_", "relu"},
        {"SiLU", "silu"}, {"silu", "silu"}, {"sigmoid", "silu"}, {"tanh", "tanh"}, {"Tanh", "tanh"}};
    const auto found = kNames.find(op);
    if (found == kNames.end()) return;
    const nlohmann::json* approximate = node(i).find("approximate");
    const bool by_tanh = approximate != nullptr && *approximate == "tanh";
    const bool cubed = found->second == "tanh" && before(i, 5, [](const FxNode& n) { return n.out.op == "pow"; });
    put(EventKind::activation, i, 0, 0).what = by_tanh || cubed ? "gelu_tanh" : found->second;
  }

  const std::vector<FxNode>& nodes_;
  std::map<std::string, std::size_t> at_;
};

}  // namespace

TransformerEvents transformer_events(const FxDocument& document) { return EventReader(document).out; }

}  // namespace rehearse
