// Parameters and FLOPs against published figures and formulas.

#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "core/model/operator_count.hpp"
#include "models.hpp"
#include "tests/support/source_path.hpp"

namespace rehearse::test {
namespace {

struct Gpt {
  std::int64_t l, h, a;
  double billions;
};
/// Narayanan et al. 2021, table 1: layers, hidden size, heads, parameters as printed.
constexpr Gpt kMegatron[] = {{24, 2304, 24, 1.7},      {30, 3072, 32, 3.6},     {36, 4096, 32, 7.5},
                             {40, 6144, 48, 18.4},     {48, 8192, 64, 39.1},    {60, 10240, 80, 76.1},
                             {80, 12288, 96, 145.6},   {96, 16384, 128, 310.1}, {105, 20480, 128, 529.6},
                             {128, 25600, 160, 1008.0}};
constexpr std::int64_t kV = 51200, kS = 2048;

TEST_CASE("parameters equal the published counts") {
  // Sizes of the released checkpoints' safetensors on Hugging Face (tied tensors once).
  CHECK(shipped("gpt2").parameter_count() == 124'439'808);
  CHECK(shipped("gpt2_xl").parameter_count() == 1'557'611'200);
  CHECK(shipped("gpt_neox_20b").parameter_count() == 20'554'567'680);
  CHECK(shipped("llama2_7b").parameter_count() == 6'738'415'616);
  CHECK(shipped("llama3_8b").parameter_count() == 8'030'261'248);
  CHECK(shipped("llama3_70b").parameter_count() == 70'553'706'496);
  CHECK(shipped("llama3_405b").parameter_count() == 405'853'388'800);
}

TEST_CASE("Mistral 7B and Qwen2.5 7B are Llama layers with their own biases") {
  auto config = llama_json();
  config.update({{"model_type", "mistral"},
                 {"num_hidden_layers", 32},
                 {"hidden_size", 4096},
                 {"num_attention_heads", 32},
                 {"num_key_value_heads", 8},
                 {"intermediate_size", 14336},
                 {"vocab_size", 32000},
                 {"max_position_embeddings", 32768},
                 {"sliding_window", 4096}});
  const auto mistral = build(config);
  CHECK(mistral.parameter_count() == 7'241'732'096);
  CHECK(mistral.max_sequence_length == 32768);

  config.update({{"model_type", "qwen2"},
                 {"num_hidden_layers", 28},
                 {"hidden_size", 3584},
                 {"num_attention_heads", 28},
                 {"num_key_value_heads", 4},
                 {"intermediate_size", 18944},
                 {"vocab_size", 152064},
                 {"use_sliding_window", false}});
  const auto qwen = build(config);
  CHECK(qwen.parameter_count() == 7'615'616'512);
  CHECK(qwen.max_sequence_length == 32768);
}

TEST_CASE("Phi-3 mini and StarCoder2 3B are as large as their released tensors") {
  auto config = llama_json();
  config.update({{"model_type", "phi3"},
                 {"num_hidden_layers", 32},
                 {"hidden_size", 3072},
                 {"num_attention_heads", 32},
                 {"num_key_value_heads", 32},
                 {"intermediate_size", 8192},
                 {"vocab_size", 32064},
                 {"max_position_embeddings", 4096}});
  CHECK(build(config).parameter_count() == 3'821'079'552);  // microsoft/Phi-3-mini-4k-instruct

  config.update({{"model_type", "starcoder2"},
                 {"num_hidden_layers", 30},
                 {"num_attention_heads", 24},
                 {"num_key_value_heads", 2},
                 {"intermediate_size", 12288},
                 {"vocab_size", 49152},
                 {"max_position_embeddings", 16384},
                 {"sliding_window", 4096},
                 {"tie_word_embeddings", true}});
  const auto starcoder = build(config);
  CHECK(starcoder.parameter_count() == 3'030'371'328);  // bigcode/starcoder2-3b
  CHECK(starcoder.max_sequence_length == 16384);
}

TEST_CASE("GPT parameters follow 12 l h^2 (1 + 13/12h + (V+s)/12lh), plus the last norm") {
  for (const auto& [l, h, a, billions] : kMegatron) {
    const auto n = build(gpt2_json(l, h, a, kV, kS)).parameter_count();
    // Narayanan et al. 2021, eq. 2, which leaves out the 2h of the norm before the head.
    CHECK(n - 2 * h == 12 * l * h * h + 13 * l * h + (kV + kS) * h);
    CHECK(static_cast<double>(n) / 1e9 == Approx(billions).margin(0.0501));
  }
}

TEST_CASE("shipped GPTs have the sizes they are named for") {
  CHECK(shipped("megatron_22b").parameter_count() == Approx(22e9).epsilon(0.005));
  CHECK(shipped("gpt3_175b").parameter_count() == Approx(175e9).epsilon(0.005));
  CHECK(shipped("megatron_530b").parameter_count() == Approx(530e9).epsilon(0.001));
  CHECK(shipped("megatron_1t").parameter_count() == Approx(1008e9).epsilon(0.001));
}

TEST_CASE("model FLOPs of a GPT are 72 B s l h^2 (1 + s/6h + V/12lh)") {
  for (const auto& [l, h, a, billions] : kMegatron) {
    const double B = 4, s = kS, ld = static_cast<double>(l), hd = static_cast<double>(h);
    const double formula = 72 * B * s * ld * hd * hd * (1 + s / (6 * hd) + kV / (12 * ld * hd));
    CHECK(model_flops(build(gpt2_json(l, h, a, kV, kS)), 4, kS).value() == Approx(formula).epsilon(1e-12));
  }
}

TEST_CASE("Llama's training FLOPs are 6 per matrix weight and token, plus attention") {
  const auto n = shipped("llama3_8b");
  const double tables = 128256.0 * 4096, norms = 65 * 4096.0;  // the word table is looked up, not multiplied
  const double weights = static_cast<double>(n.parameter_count()) - tables - norms;
  const double s = 8192, attention = 12 * 32 * 4096 * s;  // per token: 3 * 4 s h in each layer
  CHECK(model_flops(n, 1, 8192).value() == Approx(s * (6 * weights + attention)).epsilon(1e-12));
}

TEST_CASE("Megatron's way of counting leaves half of causal attention out, and nothing else") {
  // Narayanan et al. 2021, eq. 3: the term of attention is 12 B s^2 l h; a causal mask leaves half of its scores.
  const std::int64_t l = 3, h = 64, b = 4, s = 512;
  const Network gpt = build(gpt2_json(l, h, 4, 1000, s));
  const double all = model_flops(gpt, b, s).value(), causal = causal_model_flops(gpt, b, s).value();
  CHECK(all - causal == Approx(6.0 * b * s * s * l * h).epsilon(1e-12));
  // All words of a BERT see all others.
  const Network bert = shipped("bert_large");
  CHECK(causal_model_flops(bert, b, s).value() == model_flops(bert, b, s).value());
}

TEST_CASE("the models' table states their parameters") {
  std::ifstream file(rehearse::testing::source_path("scenarios/models/README.md"));
  const std::string text(std::istreambuf_iterator<char>(file), {});
  for (const auto& name : library().names()) {
    INFO(name);
    const auto row = text.find(fmt::format("| `{}` |", name));
    REQUIRE(row != std::string::npos);
    const auto cell = fmt::format("| {} |", fmt::group_digits(shipped(name).parameter_count()));
    CHECK(text.substr(row, text.find('\n', row) - row).find(cell) != std::string::npos);
  }
}

TEST_CASE("causal counting halves attention and nothing else") {
  const auto n = shipped("llama3_8b");
  const auto& layer = block(n, "layer");
  for (const auto& op : layer.ops) {
    const double full = forward_matmul_flops(layer, op, 2, 4096, false).value();
    const double half = forward_matmul_flops(layer, op, 2, 4096, true).value();
    CHECK(half == (op.kind == OpKind::attention ? full / 2 : full));
  }
  const auto& core = *find(layer.ops, "attention.core");
  CHECK(forward_matmul_flops(layer, core, 2, 4096, false).value() == 4.0 * 2 * 32 * 4096 * 4096 * 128);
}

TEST_CASE("the operator report adds up to the network, for every shipped model") {
  for (const auto& name : library().names()) {
    INFO(name);
    const auto n = shipped(name);
    std::int64_t parameters = 0;
    double flops = 0;
    for (const auto& row : count_operators(n, 2, 64)) {
      const auto at = static_cast<int>(
          std::find_if(n.blocks.begin(), n.blocks.end(), [&](const BlockSpec& b) { return b.name == row.block; }) -
          n.blocks.begin());
      // Three forwards, two whole backwards and a half one.
      const double passes = n.adversarial() && at >= n.discriminator ? 8.0 / 3 : 1.0;
      parameters += row.repeat * row.parameters;
      flops += passes * row.repeat * row.forward_flops.value();
      CHECK(row.output_elements > 0);
    }
    CHECK(parameters == n.parameter_count());
    CHECK(3 * flops == Approx(model_flops(n, 2, 64).value()).epsilon(1e-12));
  }
}

TEST_CASE("blocks add up to the network, tied tables once") {
  for (const auto& name : library().names()) {
    INFO(name);
    const auto n = shipped(name);
    std::int64_t stored = 0, tied = 0;
    for (std::size_t i = 0; i < n.blocks.size(); ++i) stored += n.blocks[i].parameter_count() * n.repeat[i];
    for (const auto& b : n.blocks)
      for (const auto& p : b.params) tied += p.tied_to.empty() ? 0 : p.elements();
    CHECK(stored - tied == n.parameter_count());
  }
}

}  // namespace
}  // namespace rehearse::test
