// Hybrids of Mamba-2, attention, MLPs and experts: counts against published figures, order of layers, structure,
// errors.

#include <fstream>

#include "core/base/index.hpp"
#include "core/model/network_check.hpp"
#include "models.hpp"

namespace rehearse::test {
namespace {

nlohmann::json config_of(const std::string& name) {
  std::ifstream file(rehearse::testing::source_path("scenarios/models/") + name + "/config.json");
  return nlohmann::json::parse(file);
}

nlohmann::json tiny() { return config_of("tiny_nemotron_h"); }

Network without_prediction(const std::string& name) {
  auto config = config_of(name);
  config["num_nextn_predict_layers"] = 0;
  return build(config);
}

/// Letters by what the blocks at each position are.
std::string letters(const Network& n) {
  std::string out;
  for (const int b : n.order()) {
    const std::string& name = nth(n.blocks, b).name;
    out += name == "mamba_layer"       ? 'M'
           : name == "attention_layer" ? '*'
           : name == "mlp_layer"       ? '-'
           : name == "expert_layer"    ? 'E'
           : name == "embedding"       ? '['
                                       : ']';
  }
  return out;
}

std::string refused(const nlohmann::json& config) { return refusal(config).what(); }

}  // namespace

TEST_CASE("Nemotron 3 has the parameters that NVIDIA states") {
  // research.nvidia.com/labs/nemotron/Nemotron-3: Nano has 31.6 B, of which 3.2 B are active, 3.6 B with embeddings.
  const auto nano = shipped("nemotron_3_nano_30b_a3b");
  CHECK(static_cast<double>(nano.parameter_count()) / 1e9 == Approx(31.6).margin(0.05));
  CHECK(static_cast<double>(nano.active_parameter_count()) / 1e9 == Approx(3.6).margin(0.05));
  CHECK(static_cast<double>(nano.active_parameter_count() - std::int64_t{131072} * 2688) / 1e9 ==
        Approx(3.2).margin(0.05));
  // Nemotron 3 Super's report (arXiv 2604.12374): 120.6 B, 12.7 B active. Ultra's (arXiv 2606.15007): 550 B, 55 B
  // active.
  const auto super = without_prediction("nemotron_3_super_120b_a12b");
  CHECK(static_cast<double>(super.parameter_count()) / 1e9 == Approx(120.6).epsilon(0.001));
  CHECK(static_cast<double>(super.active_parameter_count()) / 1e9 == Approx(12.7).epsilon(0.01));
  const auto ultra = without_prediction("nemotron_3_ultra");
  CHECK(static_cast<double>(ultra.parameter_count()) / 1e9 == Approx(550).epsilon(0.002));
  CHECK(static_cast<double>(ultra.active_parameter_count() - std::int64_t{131072} * 8192) / 1e9 ==
        Approx(55).epsilon(0.01));
}

TEST_CASE("Nemotron-H 56B has 54 Mamba-2, 54 MLP and 10 attention layers and 56 billion parameters") {
  // NVIDIA 2025, Nemotron-H; sizes as in Megatron-Bridge v0.3.1, models/nemotronh/nemotron_h_provider.py,
  // NemotronHModelProvider56B.
  auto config = config_of("nemotron_h_8b");
  std::string pattern = "M-M-M-M*-";
  for (int i = 0; i < 9; ++i) pattern += "M-M-M-M-M*-";
  pattern += "M-M-M-M-M-";
  config.update({{"hybrid_override_pattern", pattern},
                 {"num_hidden_layers", 118},
                 {"hidden_size", 8192},
                 {"intermediate_size", 32768},
                 {"num_attention_heads", 64},
                 {"mamba_num_heads", 256},
                 {"ssm_state_size", 256}});
  const auto n = build(config);
  CHECK(n.repeat == std::vector<int>{1, 54, 10, 54, 1});
  CHECK(static_cast<double>(n.parameter_count()) / 1e9 == Approx(56).margin(0.5));
}

TEST_CASE("layers stand in the order of the pattern") {
  CHECK(letters(shipped("tiny_nemotron_h")) == "[ME*-M]");
  for (const char* name :
       {"nemotron_3_nano_30b_a3b", "nemotron_3_super_120b_a12b", "nemotron_3_ultra", "nemotron_h_8b"}) {
    INFO(name);
    const auto n = shipped(name);
    const auto pattern = config_of(name).at("hybrid_override_pattern").get<std::string>();
    CHECK(letters(n) == "[" + pattern + "]");
    CHECK(n.layers() == static_cast<int>(pattern.size()));
  }
}

TEST_CASE("only the kinds that the pattern has become blocks") {
  auto config = tiny();
  config["hybrid_override_pattern"] = "MM*MM";
  for (const char* key : {"n_routed_experts", "moe_intermediate_size"}) config.erase(key);
  const auto n = build(config);
  REQUIRE(n.blocks.size() == 4);
  CHECK((n.blocks[1].name == "mamba_layer" && n.blocks[2].name == "attention_layer"));
  CHECK(n.repeat == std::vector<int>{1, 4, 1, 1});
  CHECK(n.pattern == std::vector<int>{1, 1, 2, 1, 1});
  CHECK(n.routing() == nullptr);
  config["hybrid_override_pattern"] = "**-*-";
  for (const char* key : {"mamba_num_heads", "mamba_head_dim", "ssm_state_size"}) config.erase(key);
  CHECK(letters(build(config)) == "[**-*-]");
}

TEST_CASE("every layer of a hybrid is a norm, one branch and an addition") {
  const auto n = shipped("tiny_nemotron_h");
  const auto ops = [&](const char* name) {
    std::string out;
    for (const auto& op : block(n, name).ops) out += op.name + " ";
    return out;
  };
  CHECK(ops("embedding") == "word ");
  CHECK(ops("mamba_layer") == "norm mamba.in_proj mamba.core mamba.norm mamba.out_proj mamba.add ");
  CHECK(ops("attention_layer") == "norm attention.qkv attention.core attention.proj attention.add ");
  CHECK(ops("mlp_layer") == "norm mlp.fc1 mlp.squared_relu mlp.fc2 mlp.add ");
  CHECK(ops("expert_layer") ==
        "norm moe.router moe.latent_down moe.dispatch moe.shared.up moe.shared.squared_relu moe.shared.down moe.up "
        "moe.squared_relu moe.down moe.combine moe.latent_up moe.add mlp.add ");
}

TEST_CASE("a Mamba-2 mixer splits by heads and by groups") {
  const auto n = shipped("tiny_nemotron_h");
  const auto& layer = block(n, "mamba_layer");
  const std::int64_t h = 64, a = 4, p = 8, g = 2, state = 8, inner = a * p, shared = g * state, k = 4;
  const auto& in = *find(layer.params, "mamba.in_proj.weight");
  CHECK((in.shape[0].tag == DimTag::heads && in.shape[0].size == 2 * inner + 2 * shared + a && in.shape[1].size == h));
  CHECK(in.segments == std::vector<std::int64_t>{inner, inner, shared, shared, a});
  const auto& conv = *find(layer.params, "mamba.core.conv.weight");
  CHECK((conv.shape[0].tag == DimTag::heads && conv.elements() == (inner + 2 * shared) * k));
  CHECK(conv.segments == std::vector<std::int64_t>{inner, shared, shared});
  CHECK(find(layer.params, "mamba.core.conv.bias")->segments == conv.segments);
  for (const char* each : {"a_log", "d", "dt_bias"})
    CHECK(find(layer.params, std::string("mamba.core.") + each)->elements() == a);
  CHECK(find(layer.params, "mamba.core.d")->init_one);
  CHECK((find(layer.tensors, "mamba.b")->shape[2].tag == DimTag::kv_heads &&
         find(layer.tensors, "mamba.b")->shape[2].size == g));
  const auto& norm = *find(layer.ops, "mamba.norm");
  CHECK((norm.groups == g && nth(layer.params, norm.params[0]).shape[0].tag == DimTag::heads));
  CHECK(find(layer.ops, "mamba.core")->chunk == 8);
}

TEST_CASE("a Mamba-2 layer costs what Megatron-LM counts for it") {
  // megatron/training/training.py, mamba_layer_flops, with an inner size of twice the hidden one, which it takes for
  // granted.
  const auto n = shipped("nemotron_h_8b");
  const auto& layer = block(n, "mamba_layer");
  const double tokens = 2 * 4096.0, h = 4096, inner = 2 * h, state = 128, groups = 8, heads = 128;
  double found = 0;
  for (const auto& op : layer.ops) found += forward_matmul_flops(layer, op, 2, 4096, true).value();
  CHECK(found == Approx(2 * tokens * h * (2 * inner + 2 * groups * state + heads) + 7 * tokens * inner * state +
                        2 * tokens * inner * h)
                     .epsilon(1e-12));
}

TEST_CASE("latent experts take and give latents; router and shared expert see all of a token") {
  const auto n = shipped("nemotron_3_super_120b_a12b");
  const auto& layer = block(n, "expert_layer");
  const std::int64_t h = 4096, latent = 1024, E = 512, f = 2688;
  CHECK(find(layer.params, "moe.up.weight")->elements() == E * f * latent);
  CHECK(find(layer.params, "moe.down.weight")->elements() == E * latent * f);
  CHECK(find(layer.params, "moe.latent_down.weight")->elements() == latent * h);
  CHECK(find(layer.params, "moe.latent_up.weight")->elements() == h * latent);
  CHECK(find(layer.params, "moe.router.weight")->elements() == E * h);
  CHECK(find(layer.params, "moe.shared.up.weight")->elements() == 5376 * h);
  CHECK(find(layer.params, "moe.shared.gate_up.weight") == nullptr);
  CHECK(find(layer.tensors, "moe.dispatch")->shape[1].size == latent);
  CHECK(find(block(shipped("nemotron_3_nano_30b_a3b"), "expert_layer").ops, "moe.latent_down") == nullptr);
}

TEST_CASE("further tokens are predicted by one module, or by one each") {
  auto config = config_of("nemotron_3_super_120b_a12b");
  const auto twice = build(config);
  CHECK(find(block(twice, "head").params, "mtp2.moe.up.weight")->tied_to == "head.mtp1.moe.up.weight");
  CHECK(find(block(twice, "head").params, "mtp2.logits.weight")->tied_to == "head.logits.weight");
  CHECK(find(block(twice, "head").ops, "mtp1.attention.rope_q") == nullptr);
  config["num_nextn_predict_layers"] = 1;
  const auto once = build(config);
  CHECK(once.parameter_count() == twice.parameter_count());
  CHECK(model_flops(once, 1, 4096) < model_flops(twice, 1, 4096));
  config["num_nextn_predict_layers"] = 2;
  config["mtp_use_repeated_layer"] = false;
  const std::int64_t module =
      once.parameter_count() - without_prediction("nemotron_3_super_120b_a12b").parameter_count();
  CHECK(build(config).parameter_count() == twice.parameter_count() + module);
}

TEST_CASE("hybrids that cannot be are refused with the reason") {
  const auto with = [](const char* key, const nlohmann::json& value) {
    auto config = tiny();
    config[key] = value;
    return config;
  };
  CHECK(refused(with("hybrid_override_pattern", "MEx-M")) == "layer 2 is 'x'");
  CHECK(refused(with("hybrid_override_pattern", "ME*-")) == "4 letters for 5 layers");
  CHECK(refused(with("n_groups", 3)) == "mamba_num_heads (4) mod n_groups (3) = 1 != 0");
  CHECK(refused(with("num_experts_per_tok", 9)) == "9 experts per token > 1 groups * 8 experts");
  CHECK(refused(with("use_conv_bias", false)).find("convolution has no bias") != std::string::npos);
  CHECK(refusal(with("mlp_hidden_act", "silu")).kind == ErrorKind::usage);
  auto further = with("num_nextn_predict_layers", 1);
  further["mtp_hybrid_override_pattern"] = "M*E";
  CHECK(refused(further) == "a prediction module of layers 'M*E'");
  further["mtp_hybrid_override_pattern"] = "*E";
  CHECK_NOTHROW(build(further));
  further["hybrid_override_pattern"] = "M-*-M";
  CHECK(refused(further).find("the pattern has none") != std::string::npos);
}

TEST_CASE("a damaged hybrid is refused") {
  const auto whole = shipped("tiny_nemotron_h");
  const auto damaged = [&](auto&& change) {
    Network n = whole;
    change(n);
    try {
      validate(n);
      return false;
    } catch (const Error& e) {
      return e.kind == ErrorKind::usage;
    }
  };
  const auto param = [](Network& n, std::string_view name) -> ParamSpec& {
    return const_cast<ParamSpec&>(*find(block(n, "mamba_layer").params, name));
  };
  const auto op = [](Network& n, std::string_view name) -> OpSpec& {
    return const_cast<OpSpec&>(*find(block(n, "mamba_layer").ops, name));
  };
  CHECK(damaged([&](Network& n) { param(n, "mamba.core.conv.weight").segments[0] += 1; }));
  CHECK(damaged([&](Network& n) { param(n, "mamba.core.conv.bias").shape[0].size += 1; }));
  CHECK(damaged([&](Network& n) { param(n, "mamba.core.a_log").shape[0].size += 1; }));
  CHECK(damaged([&](Network& n) { std::swap(op(n, "mamba.core").inputs[1], op(n, "mamba.core").inputs[2]); }));
  CHECK(damaged([&](Network& n) { op(n, "mamba.core").chunk = 0; }));
  CHECK(damaged([&](Network& n) { op(n, "mamba.norm").groups = 3; }));
  CHECK(damaged([&](Network& n) { n.pattern.pop_back(); }));
  CHECK(damaged([&](Network& n) { n.pattern.front() = 0; }));
  CHECK_FALSE(damaged([](Network&) {}));
}

}  // namespace rehearse::test
