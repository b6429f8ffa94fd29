// What parameters are called in other programs' files.

#include "tests/support/catch.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/index.hpp"
#include "core/weights/weight_names.hpp"
#include "tests/support/source_path.hpp"

namespace rehearse {
namespace {

const WeightNames& scheme(const std::vector<WeightNames>& all, const std::string& name) {
  const auto at = std::find_if(all.begin(), all.end(), [&](const WeightNames& s) { return s.name == name; });
  REQUIRE(at != all.end());
  return *at;
}

std::vector<WeightNames> shipped_schemes() { return read_weight_names(testing::source_path("topologies/weights")); }

}  // namespace

TEST_CASE("a fused product is the pieces that a file has") {
  const auto all = shipped_schemes();
  const auto pieces = scheme(all, "huggingface_llama")
                          .pieces_of({{"layer.1.attention.qkv.weight", {128, 64}, {64, 32, 32}},
                                      {"layer.2.attention.qkv.weight", {128, 64}, {64, 32, 32}}});
  REQUIRE(pieces);
  CHECK(pieces->at("layer.2.attention.qkv.weight") ==
        std::vector<WeightPiece>{{"model.layers.1.self_attn.q_proj.weight", {64, 64}, false},
                                 {"model.layers.1.self_attn.k_proj.weight", {32, 64}, false},
                                 {"model.layers.1.self_attn.v_proj.weight", {32, 64}, false}});
}

TEST_CASE("GPT-2's products are transposed") {
  const auto all = shipped_schemes();
  const auto pieces = scheme(all, "huggingface_gpt2")
                          .pieces_of({{"layer.1.mlp.fc1.weight", {256, 64}, {}}, {"layer.1.mlp.fc1.bias", {256}, {}}});
  REQUIRE(pieces);
  CHECK(pieces->at("layer.1.mlp.fc1.weight") ==
        std::vector<WeightPiece>{{"transformer.h.0.mlp.c_fc.weight", {64, 256}, true}});
  CHECK(scheme(all, "huggingface_gpt2").spellings("transformer.wte.weight") ==
        std::vector<std::string>{"transformer.wte.weight", "wte.weight"});
}

TEST_CASE("an expert is a tensor of its own") {
  const auto all = shipped_schemes();
  const auto pieces =
      scheme(all, "huggingface_mixtral").pieces_of({{"layer.1.moe.gate_up.weight", {2, 192, 64}, {96, 96}}});
  REQUIRE(pieces);
  const auto& list = pieces->at("layer.1.moe.gate_up.weight");
  REQUIRE(list.size() == 4);
  CHECK(list[1] == WeightPiece{"model.layers.0.block_sparse_moe.experts.0.w3.weight", {96, 64}, false});
  CHECK(list[2] == WeightPiece{"model.layers.0.block_sparse_moe.experts.1.w1.weight", {96, 64}, false});
}

TEST_CASE("blocks of a stage are counted from its first") {
  const auto all = shipped_schemes();
  const auto pieces = scheme(all, "torchvision_resnet")
                          .pieces_of({{"stage2_first.4.shortcut.weight", {512, 256, 1, 1}, {}},
                                      {"stage2.5.conv1.weight", {128, 512, 1, 1}, {}},
                                      {"stage2.6.conv1.norm.bias", {128}, {}}});
  REQUIRE(pieces);
  CHECK(pieces->at("stage2_first.4.shortcut.weight").front().name == "layer2.0.downsample.0.weight");
  CHECK(pieces->at("stage2.5.conv1.weight").front().name == "layer2.1.conv1.weight");
  CHECK(pieces->at("stage2.6.conv1.norm.bias").front().name == "layer2.2.bn1.bias");
}

TEST_CASE("a scheme that misses a parameter names none") {
  const auto all = shipped_schemes();
  CHECK_FALSE(scheme(all, "huggingface_llama").pieces_of({{"layer.1.moe.router.weight", {8, 64}, {}}}));
  // Three pieces, and no word on where they begin.
  CHECK_FALSE(scheme(all, "huggingface_llama").pieces_of({{"layer.1.attention.qkv.weight", {128, 64}, {}}}));
}

}  // namespace rehearse
