// Graphs of networks become blocks of a layer list.

#include "tests/support/catch.hpp"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/import/graph/graph.hpp"

namespace rehearse {
namespace {

using nlohmann::json;

/// A graph in the words of rehearse_graph.py.
class FxGraph {
 public:
  std::string add(const std::string& op, std::vector<std::string> inputs, std::vector<std::int64_t> shape,
                  json attributes = json::object(), json parameters = json::object()) {
    const std::string name = fmt::format("n{}", nodes_.size());
    nodes_.push_back({{"name", name},
                      {"module", name},
                      {"op", op},
                      {"inputs", inputs},
                      {"constants", json::array()},
                      {"options", json::object()},
                      {"attributes", attributes},
                      {"parameters", parameters},
                      {"shape", shape}});
    for (const auto& [key, sizes] : parameters.items()) parameters_[name + "." + key] = sizes;
    if (op == "parameter") parameters_[name] = shape;
    return name;
  }
  std::string convolution(const std::string& x, std::int64_t in, std::int64_t out) {
    return add("Conv2d", {x}, {2, out, 8, 8},
               {{"kernel_size", {3, 3}}, {"stride", {1, 1}}, {"padding", {1, 1}}, {"dilation", {1, 1}}, {"groups", 1}},
               {{"weight", {out, in, 3, 3}}});
  }
  ImportedGraph imported() const {
    return import_graph(json{{"schema", kGraphSchema},
                             {"name", "Small"},
                             {"torch", "1.13.1"},
                             {"parameters", parameters_},
                             {"nodes", nodes_}}
                            .dump(),
                        "small.json");
  }

 private:
  json nodes_ = json::array(), parameters_ = json::object();
};

/// x + relu(convolution(x)), then relu.
std::string residual(FxGraph& g, const std::string& x, const std::string& between = "relu") {
  const std::string branch = g.add(between, {g.convolution(x, 4, 4)}, {2, 4, 8, 8});
  return g.add("relu", {g.add("add", {branch, x}, {2, 4, 8, 8})}, {2, 4, 8, 8});
}

/// GPT-2 of 8 features in 2 heads over 4 tokens. `extra` rows more are in a parameter that nothing here is.
FxGraph decoder(int layers, std::int64_t extra = 0) {
  FxGraph g;
  const auto norm = [&](const std::string& x) {
    return g.add("LayerNorm", {x}, {1, 4, 8}, {{"eps", 1e-5}}, {{"weight", {8}}, {"bias", {8}}});
  };
  const auto product = [&](const std::string& x, std::int64_t in, std::int64_t out) {
    return g.add("Linear", {x}, {1, 4, out}, json::object(), {{"weight", {out, in}}, {"bias", {out}}});
  };
  const std::string tokens = g.add("placeholder", {}, {1, 4});
  const std::string words = g.add("Embedding", {tokens}, {1, 4, 8}, json::object(), {{"weight", {50, 8}}});
  const std::string places =
      g.add("Embedding", {g.add("arange", {}, {4})}, {4, 8}, json::object(), {{"weight", {16, 8}}});
  std::string x = g.add("add", {words, places}, {1, 4, 8});
  for (int i = 0; i < layers; ++i) {
    const std::string qkv = g.add("view", {product(norm(x), 8, 24)}, {1, 2, 4, 4});
    const std::string scores = g.add("matmul", {qkv, qkv}, {1, 2, 4, 4});
    const std::string p = g.add("softmax", {g.add("masked_fill", {scores}, {1, 2, 4, 4})}, {1, 2, 4, 4});
    x = g.add("add", {x, product(g.add("view", {g.add("matmul", {p, qkv}, {1, 2, 4, 4})}, {1, 4, 8}), 8, 8)},
              {1, 4, 8});
    const std::string up = product(norm(x), 8, 20);
    x = g.add("add", {x, product(g.add("GELU", {up}, {1, 4, 20}, {{"approximate", "tanh"}}), 20, 8)}, {1, 4, 8});
  }
  x = norm(x);
  if (extra > 0) x = g.add("PReLU", {x}, {1, 4, 8}, json::object(), {{"weight", {extra}}});
  x = g.add("Linear", {x}, {1, 4, 50}, json::object(), {{"weight", {50, 8}}});
  (void)g.add("output", {x}, {1, 4, 50});
  return g;
}

std::string refusal(const FxGraph& g) {
  try {
    (void)g.imported();
  } catch (const Error& e) {
    CHECK(e.kind == ErrorKind::usage);
    return e.where + ": " + e.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("equal branches in a row are one block that repeats") {
  FxGraph g;
  std::string x = g.convolution(g.add("placeholder", {}, {2, 3, 8, 8}), 3, 4);
  for (int i = 0; i < 5; ++i) x = residual(g, x);
  x = g.add("Linear", {g.add("flatten", {g.add("AdaptiveAvgPool2d", {x}, {2, 4, 1, 1})}, {2, 4})}, {2, 10},
            json::object(), {{"weight", {10, 4}}, {"bias", {10}}});
  (void)g.add("output", {x}, {2, 10});
  const ImportedGraph found = g.imported();
  CHECK(found.parameters == 3 * 4 * 9 + 5 * 4 * 4 * 9 + 4 * 10 + 10);
  CHECK(found.forward_flops == 2.0 * (64 * (3 * 4 * 9 + 5 * 4 * 4 * 9) + 40));
  const json list = json::parse(found.layer_list);
  CHECK(list["classes"] == 10);
  int repeated = 0;
  for (const json& block : list["blocks"]) repeated = std::max(repeated, block.value("repeat", 1));
  CHECK(repeated >= 4);  // The pool after the last may be part of its block.
  CHECK(found.unknown.empty());
}

TEST_CASE("an operator that changes nothing we count is left out, and said") {
  FxGraph g;
  (void)g.add("output", {residual(g, g.convolution(g.add("placeholder", {}, {2, 3, 8, 8}), 3, 4), "Hardswish")},
              {2, 4, 8, 8});
  CHECK(g.imported().unknown == std::map<std::string, int>{{"Hardswish", 1}});
}

TEST_CASE("one tensor joined to nothing is itself") {
  FxGraph g;
  const std::string x = g.convolution(g.add("placeholder", {}, {2, 3, 8, 8}), 3, 4);
  (void)g.add("output", {g.convolution(g.add("cat", {x}, {2, 4, 8, 8}), 4, 4)}, {2, 4, 8, 8});
  CHECK(g.imported().parameters == 3 * 4 * 9 + 4 * 4 * 9);
}

TEST_CASE("an operator that changes shapes or has parameters is refused by name") {
  FxGraph pads, learns;
  (void)pads.add("output", {pads.add("pad", {pads.add("placeholder", {}, {2, 3, 8, 8})}, {2, 3, 9, 9})}, {2, 3, 9, 9});
  CHECK(refusal(pads).find("(pad): no operator here is this one") != std::string::npos);
  (void)learns.add("output",
                   {learns.add("PReLU", {learns.add("placeholder", {}, {2, 3, 8, 8})}, {2, 3, 8, 8}, json::object(),
                               {{"weight", {1}}})},
                   {2, 3, 8, 8});
  CHECK(refusal(learns).find("(PReLU)") != std::string::npos);
}

TEST_CASE("a decoder is found by what its layers do") {
  const ImportedGraph found = decoder(3).imported();
  const json config = json::parse(found.layer_list);
  CHECK(config["model_type"] == "gpt2");
  CHECK(config["n_layer"] == 3);
  CHECK(config["n_embd"] == 8);
  CHECK(config["n_head"] == 2);
  CHECK(config["n_inner"] == 20);
  CHECK(config["n_positions"] == 16);
  CHECK(config["vocab_size"] == 50);
  CHECK(config["activation_function"] == "gelu_new");
  CHECK(config["tie_word_embeddings"] == false);
  // Tables, three layers of two norms and four products, a norm, the head.
  const std::int64_t layer = 4 * 8 + 24 * 9 + 8 * 9 + 20 * 9 + 8 * 21;
  CHECK(found.parameters == 50 * 8 + 16 * 8 + 3 * layer + 2 * 8 + 50 * 8);
  CHECK(found.forward_flops == 2.0 * 4 * (3 * (24 * 8 + 64 + 2 * 160) + 400) + 3 * 4.0 * 4 * 4 * 8);
  CHECK(found.instances == 5);
}

TEST_CASE("a decoder whose layers have no counterpart is refused with what differs") {
  CHECK(refusal(decoder(1)).find("repeat") != std::string::npos);
  CHECK(refusal(decoder(2, 5)).find("parameters") != std::string::npos);
}

TEST_CASE("what is no graph is refused") {
  FxGraph none, unread;
  CHECK(refusal(none) != "accepted");
  (void)unread.add("placeholder", {}, {2, 3, 8, 8});
  CHECK(refusal(unread) != "accepted");
  CHECK_THROWS_AS(import_graph("", "empty"), Error);
  CHECK_THROWS_AS(import_graph("\x3a\x7f", "cut"), Error);
}

}  // namespace rehearse
