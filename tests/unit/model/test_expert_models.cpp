// Networks with experts, latent attention and prediction of further tokens, and BERT: counts against published figures,
// structure.

#include <fstream>

#include "core/base/index.hpp"
#include "models.hpp"
#include "tests/support/source_path.hpp"

namespace rehearse::test {
namespace {

/// Forward and backward FLOPs per token, counting the half of attention that a causal mask leaves.
double causal_flops_per_token(const Network& n, std::int64_t s) {
  double forward = 0;
  for (std::size_t i = 0; i < n.blocks.size(); ++i)
    for (const auto& op : n.blocks[i].ops)
      forward += n.repeat[i] * forward_matmul_flops(n.blocks[i], op, 1, s, true).value();
  return 3 * forward / static_cast<double>(s);
}

Network deepseek_v3(int further) {
  std::ifstream file(rehearse::testing::source_path("scenarios/models/deepseek_v3/config.json"));
  auto config = nlohmann::json::parse(file);
  config["num_nextn_predict_layers"] = further;
  return build(config);
}

nlohmann::json tiny(const std::string& name) {
  std::ifstream file(rehearse::testing::source_path("scenarios/models/") + name + "/config.json");
  return nlohmann::json::parse(file);
}

}  // namespace

TEST_CASE("parameters of networks with experts equal the published counts") {
  // Sizes of the released checkpoints' safetensors on Hugging Face.
  CHECK(shipped("mixtral_8x7b").parameter_count() == 46'702'792'704);
  CHECK(shipped("qwen3_235b_a22b").parameter_count() == 235'093'634'560);
  CHECK(shipped("qwen3_30b_a3b").parameter_count() == 30'532'122'624);
  // Names: "8x7B uses 13B of 47B" (Jiang et al. 2024), "235B-A22B", "30B-A3B" (Yang et al. 2025).
  CHECK(static_cast<double>(shipped("mixtral_8x7b").active_parameter_count()) / 1e9 == Approx(12.9).margin(0.05));
  CHECK(static_cast<double>(shipped("qwen3_235b_a22b").active_parameter_count()) / 1e9 == Approx(22.2).margin(0.05));
  CHECK(static_cast<double>(shipped("qwen3_30b_a3b").active_parameter_count()) / 1e9 == Approx(3.35).margin(0.05));
}

TEST_CASE("GPT-OSS has the parameters of its model card, in layers that alternate") {
  // arXiv 2508.10925, table 1: 116.83 and 20.91 billion in all, 5.13 and 3.61 active without the word table.
  const auto large = shipped("gpt_oss_120b"), small = shipped("gpt_oss_20b");
  const std::int64_t words = std::int64_t{201088} * 2880;
  CHECK(static_cast<double>(large.parameter_count()) / 1e9 == Approx(116.83).margin(0.005));
  CHECK(static_cast<double>(small.parameter_count()) / 1e9 == Approx(20.91).margin(0.005));
  CHECK(static_cast<double>(large.active_parameter_count() - words) / 1e9 == Approx(5.13).margin(0.005));
  CHECK(static_cast<double>(small.active_parameter_count() - words) / 1e9 == Approx(3.61).margin(0.005));
  CHECK(large.layers() == 36);
  const std::vector<int> order = large.order();
  REQUIRE(order.size() == 38);
  for (std::size_t layer = 0; layer < 36; ++layer)
    CHECK(nth(large.blocks, order[layer + 1]).name == (layer % 2 == 0 ? "window_layer" : "layer"));
}

TEST_CASE("a window costs what its keys cost") {
  const auto n = shipped("gpt_oss_120b");
  const auto flops = [&](const char* name, std::int64_t s, bool causal) {
    return forward_matmul_flops(block(n, name), *find(block(n, name).ops, "attention.core"), 2, s, causal).value();
  };
  const double heads = 64, d = 64, s = 4096, w = 128;
  CHECK(flops("window_layer", 4096, false) == 2 * 4 * heads * d * s * w);
  CHECK(flops("window_layer", 4096, true) == 2 * 4 * heads * d * (s * w - w * w / 2));
  CHECK(flops("layer", 4096, true) == 2 * 4 * heads * d * s * s / 2);
  for (const bool causal : {false, true}) CHECK(flops("window_layer", 128, causal) == flops("layer", 128, causal));
}

TEST_CASE("a rotation knows whether its angles are scaled, which costs and nothing else ask") {
  auto config = tiny("tiny_gpt_oss");
  const auto scaled = [](const Network& network) {
    int n = 0;
    for (const BlockSpec& block : network.blocks)
      for (const OpSpec& op : block.ops) n += op.kind == OpKind::rope && op.scaled ? 1 : 0;
    return n;
  };
  CHECK(scaled(build(config)) == 0);
  config["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 32.0}};
  CHECK(scaled(build(config)) == 4);  // Of q and k, in layers with a window and without.
}

TEST_CASE("layers of GPT-OSS out of turn are refused, an odd one is not") {
  auto config = tiny("tiny_gpt_oss");
  config["layer_types"] = {"sliding_attention", "full_attention", "full_attention", "sliding_attention"};
  CHECK(std::string(refusal(config).what()) == "layer 2 is out of turn");
  config["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
  config["num_hidden_layers"] = 3;
  CHECK(build(config).order() == std::vector<int>{0, 1, 2, 1, 3});
  config["sliding_window"] = 0;
  CHECK(build(config).blocks.size() == 3);
}

TEST_CASE("DeepSeek-V3 has 671 billion parameters, 37 of them active, and 14 in its prediction module") {
  const auto main = deepseek_v3(0), whole = deepseek_v3(1);
  CHECK(static_cast<double>(main.parameter_count()) == Approx(671.026e9).epsilon(1e-6));
  CHECK(static_cast<double>(main.active_parameter_count()) == Approx(37.55e9).epsilon(1e-3));
  // The release counts the module's copies of word table and output projection: 685B in all.
  const double shared = 2.0 * 129280 * 7168;
  CHECK(static_cast<double>(whole.parameter_count() - main.parameter_count()) + shared ==
        Approx(13.46e9).epsilon(1e-3));
  CHECK(static_cast<double>(whole.parameter_count()) + shared == Approx(684.49e9).epsilon(1e-4));
}

TEST_CASE("DeepSeek-V2 has 236 billion parameters, 21 of them active") {
  const auto n = shipped("deepseek_v2");
  CHECK(static_cast<double>(n.parameter_count()) / 1e9 == Approx(235.74).margin(0.01));
  CHECK(static_cast<double>(n.active_parameter_count()) / 1e9 == Approx(21.4).margin(0.1));
}

TEST_CASE("training FLOPs per token at 4,096 tokens are those that DeepSeek states") {
  // Zhao et al. 2025 (ISCA, arXiv 2505.09343), table 2: 250 and 155 GFLOP per token.
  CHECK(causal_flops_per_token(deepseek_v3(0), 4096) == Approx(250e9).epsilon(0.005));
  CHECK(causal_flops_per_token(shipped("deepseek_v2"), 4096) == Approx(155e9).epsilon(0.01));
}

TEST_CASE("GPT-3 has the 174.6 billion parameters of its paper's table D.1") {
  CHECK(static_cast<double>(shipped("gpt3_175b").parameter_count()) == Approx(174.6e9).epsilon(0.001));
}

TEST_CASE("BERT-large has 335 million parameters with its masked-language head") {
  // Transformers' BertForMaskedLM; the 340M of Devlin et al. 2018 is rounded and counts the pooler.
  const auto n = shipped("bert_large");
  CHECK(n.parameter_count() == 335'174'458);
  CHECK(n.parameter_count() - (30522 + 1024 * 1025 + 2 * 1024) + 1024 * 1025 == 335'141'888);  // encoder and pooler
  const auto& core = *find(block(n, "layer").ops, "attention.core");
  CHECK_FALSE(core.causal);
  const double l = 24, h = 1024, s = 512, V = 30522, head = h * h + V * h;
  CHECK(model_flops(n, 1, 512).value() == Approx(6 * s * (l * 12 * h * h + head) + 12 * l * s * s * h).epsilon(1e-12));
}

TEST_CASE("BERT normalises after the additions") {
  const auto n = shipped("bert_large");
  const auto& layer = block(n, "layer");
  CHECK(layer.ops.front().name == "attention.qkv");
  CHECK(layer.ops.back().name == "ln2");
}

TEST_CASE("every expert's matrices count once, and a token's FLOPs those of its k") {
  const auto n = shipped("tiny_mixtral");
  const auto& layer = block(n, "layer");
  const std::int64_t E = 8, k = 2, h = 64, f = 96;
  CHECK(find(layer.params, "moe.gate_up.weight")->elements() == E * 2 * f * h);
  CHECK(find(layer.params, "moe.down.weight")->elements() == E * f * h);
  const double tokens = 3 * 32;
  CHECK(forward_matmul_flops(layer, *find(layer.ops, "moe.gate_up"), 3, 32, false).value() ==
        2 * tokens * k * h * 2 * f);
  CHECK(forward_matmul_flops(layer, *find(layer.ops, "moe.router"), 3, 32, false).value() == 2 * tokens * h * E);
  CHECK(n.parameter_count() - n.active_parameter_count() == 4 * (E - k) * 3 * f * h);
}

TEST_CASE("latent attention keeps one small vector for keys and values, and its heads differ in size") {
  const auto n = shipped("deepseek_v3");
  const auto& layer = block(n, "layer");
  CHECK(find(layer.params, "attention.kv_down.weight")->elements() == 7168 * (512 + 64));
  const auto& core = *find(layer.ops, "attention.core");
  CHECK(layer.tensors[core.inputs[1]].shape.back().size == 192);
  CHECK(layer.tensors[core.outputs[0]].shape.back().size == 128);
  CHECK(forward_matmul_flops(layer, core, 1, 4096, false).value() == 2.0 * 4096 * 4096 * 128 * (192 + 128));
}

TEST_CASE("the first layers are dense and count as layers; the prediction module follows the head") {
  const auto n = shipped("deepseek_v3");
  REQUIRE(n.blocks.size() == 4);
  CHECK(n.blocks[1].name == "dense_layer");
  CHECK(n.repeat == std::vector<int>{1, 3, 58, 1});
  CHECK(n.layers() == 61);
  CHECK(find(n.blocks[1].ops, "moe.router") == nullptr);
  const auto& head = n.blocks[3];
  CHECK(find(head.params, "mtp1.logits.weight")->tied_to == "head.logits.weight");
  CHECK(find(head.params, "mtp1.word.weight")->tied_to == "embedding.word.weight");
  CHECK(find(head.ops, "mtp1.loss") != nullptr);
  REQUIRE(n.routing() != nullptr);
  CHECK((n.routing()->groups == 8 && n.routing()->limit == 4 && n.routing()->sigmoid));
}

TEST_CASE("inconsistent experts are refused with the numbers") {
  auto config = tiny("tiny_deepseek");
  config["n_group"] = 3;
  CHECK(std::string(refusal(config).what()) == "experts (16) mod groups (3) = 1 != 0");
  config = tiny("tiny_deepseek");
  config["topk_group"] = 1;
  config["num_experts_per_tok"] = 5;
  CHECK(std::string(refusal(config).what()) == "5 experts per token > 1 groups * 4 experts");
  config = tiny("tiny_mixtral");
  config["num_experts_per_tok"] = 9;
  CHECK(refusal(config).kind == ErrorKind::usage);
  config = tiny("qwen3_30b_a3b");
  config["mlp_only_layers"] = {0};
  CHECK(std::string(refusal(config).what()).find("no experts") != std::string::npos);
}

}  // namespace rehearse::test
