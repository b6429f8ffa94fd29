// One table of what sources state about models that people know: parameters, those that a token meets, and FLOPs.
// Within 0.1 % where the source gives the digits, within its last digit where it gives fewer. The other files of this
// folder say why.

#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "models.hpp"
#include "tests/support/source_path.hpp"

namespace rehearse::test {
namespace {

/// A stated figure and how far its digits reach, relative.
struct Stated {
  double value = 0, within = 0.001;
};

enum class Flops { none, multiply_adds, per_token };

struct Row {
  const char* model;
  Stated parameters;
  Stated active;  ///< 0: all.
  Flops kind;
  /// multiply_adds: of one forward pass of one sample; per_token: forward and backward, without attention's products.
  Stated flops;
  const char* source;
};

const std::vector<Row>& table() {
  static const std::vector<Row> rows{
      {"gpt3_175b",
       {174.6e9},
       {},
       Flops::per_token,
       {3.14e23 / 300e9},
       "Brown et al. 2020, table D.1: 174,600 M, 3.14e23 FLOPs for 300 B tokens"},
      {"gpt2_medium", {354'823'168}, {}, Flops::none, {}, "Transformers' GPT2LMHeadModel of gpt2-medium"},
      {"gpt2_large", {774'030'080}, {}, Flops::none, {}, "Transformers' GPT2LMHeadModel of gpt2-large"},
      {"llama_13b", {13.0e9, 0.004}, {}, Flops::none, {}, "Touvron et al. 2023, LLaMA, table 2"},
      {"llama_33b", {32.5e9, 0.002}, {}, Flops::none, {}, "the same"},
      {"llama_65b", {65.2e9, 0.002}, {}, Flops::none, {}, "the same"},
      {"llama2_70b",
       {68'976'653'312},
       {},
       Flops::none,
       {},
       "size of the released safetensors, meta-llama/Llama-2-70b-hf"},
      {"llama3_2_1b",
       {1'235'814'400},
       {},
       Flops::none,
       {},
       "size of the released safetensors, meta-llama/Llama-3.2-1B"},
      {"llama3_2_3b",
       {3'212'749'824},
       {},
       Flops::none,
       {},
       "size of the released safetensors, meta-llama/Llama-3.2-3B"},
      {"mistral_7b",
       {7'248'023'552},
       {},
       Flops::none,
       {},
       "size of the released safetensors, mistralai/Mistral-7B-v0.3"},
      {"mixtral_8x22b",
       {141e9, 0.004},
       {39e9, 0.006},
       Flops::none,
       {},
       "Mistral AI 2024, announcement: 39 B active of 141 B"},
      {"qwen2_5_7b", {7'615'616'512}, {}, Flops::none, {}, "size of the released safetensors, Qwen/Qwen2.5-7B"},
      {"qwen2_5_14b", {14'770'033'664}, {}, Flops::none, {}, "size of the released safetensors, Qwen/Qwen2.5-14B"},
      {"qwen2_5_32b", {32'763'876'352}, {}, Flops::none, {}, "size of the released safetensors, Qwen/Qwen2.5-32B"},
      {"qwen2_5_72b", {72'706'203'648}, {}, Flops::none, {}, "size of the released safetensors, Qwen/Qwen2.5-72B"},
      {"qwen3_8b", {8'190'735'360}, {}, Flops::none, {}, "size of the released safetensors, Qwen/Qwen3-8B"},
      {"qwen3_14b", {14'768'307'200}, {}, Flops::none, {}, "size of the released safetensors, Qwen/Qwen3-14B"},
      {"qwen3_32b", {32'762'123'264}, {}, Flops::none, {}, "size of the released safetensors, Qwen/Qwen3-32B"},
      {"llama3_8b",
       {8'030'261'248},
       {},
       Flops::none,
       {},
       "size of the released safetensors, meta-llama/Meta-Llama-3-8B"},
      {"llama3_70b",
       {70'553'706'496},
       {},
       Flops::none,
       {},
       "size of the released safetensors, meta-llama/Meta-Llama-3-70B"},
      {"llama3_405b",
       {405'853'388'800},
       {},
       Flops::per_token,
       {3.8e25 / 15.6e12, 0.0132},
       "size of the released safetensors; Dubey et al. 2024: 3.8e25 FLOPs for 15.6 T tokens"},
      {"nemotron_h_8b", {8e9, 0.0625}, {}, Flops::none, {}, "model card nvidia/Nemotron-H-8B-Base-8K: 8 B"},
      {"nemotron_3_nano_30b_a3b",
       {31.6e9, 0.0016},
       {3.6e9, 0.014},
       Flops::none,
       {},
       "NVIDIA 2025, Nemotron 3 Nano: 31.6 B, 3.2 B active, 3.6 B with embeddings"},
      {"mixtral_8x7b",
       {46.7e9},
       {12.9e9, 0.004},
       Flops::none,
       {},
       "Mistral AI 2023, announcement: 46.7 B in all, 12.9 B per token"},
      {"deepseek_v3",
       {671.0e9},
       {37.0e9, 0.02},
       Flops::none,
       {},
       "DeepSeek-AI 2024: 671 B in all, 37 B per token; the prediction module apart"},
      {"nemotron4_15b",
       {15.6e9, 0.005},
       {},
       Flops::none,
       {},
       "Parmar et al. 2024, table 1: 3.1 B of embeddings, 12.5 B others"},
      {"nemotron4_340b",
       {9.4e9 + 331.6e9},
       {},
       Flops::none,
       {},
       "NVIDIA 2024, table 1: 9.4 B of embeddings, 331.6 B others"},
      {"bert_large", {335'174'458}, {}, Flops::none, {}, "Transformers' BertForMaskedLM of bert-large-uncased"},
      {"resnet50", {25'557'032}, {}, Flops::multiply_adds, {4.089e9}, "torchvision model card: num_params, _ops"},
      {"resnet101", {44'549'160}, {}, Flops::multiply_adds, {7.801e9}, "torchvision model card"},
      {"resnet152", {60'192'808}, {}, Flops::multiply_adds, {11.514e9}, "torchvision model card"},
      {"vgg16", {138'357'544}, {}, Flops::multiply_adds, {15.470e9}, "torchvision model card"},
      {"inception_v3", {27'161'264}, {}, Flops::none, {}, "torchvision model card"},
      {"alexnet", {61'100'840}, {}, Flops::multiply_adds, {0.714e9}, "torchvision model card"},
  };
  return rows;
}

/// The prediction module of DeepSeek-V3 is counted apart by its source.
Network network_of(const std::string& model) {
  if (model != "deepseek_v3") return shipped(model);
  std::ifstream file(rehearse::testing::source_path("scenarios/models/deepseek_v3/config.json"));
  auto config = nlohmann::json::parse(file);
  config["num_nextn_predict_layers"] = 0;
  return build(config);
}

double products_but_attention(const Network& n, std::int64_t s) {
  double forward = 0;
  for (std::size_t i = 0; i < n.blocks.size(); ++i)
    for (const OpSpec& op : n.blocks[i].ops)
      if (op.kind != OpKind::attention)
        forward += n.repeat[i] * forward_matmul_flops(n.blocks[i], op, 1, s, false).value();
  return forward;
}

double counted(const Network& n, Flops kind) {
  if (kind == Flops::multiply_adds) return model_flops(n, 1, 0).value() / 6;
  return 3 * products_but_attention(n, 2048) / 2048;
}

/// Dimensions of a decoder as its source prints them; `experts` 0 is a dense one.
struct Decoder {
  double l, h, heads, kv_heads, f, V, experts = 0, k = 1;
};

/// Forward FLOPs of a token among `s`: twice every weight it meets but the word table, and 4 l h s for scores and
/// context (Chowdhery et al. 2022, appendix B, whose 6 N + 12 L H Q T are forward and backward).
double per_token(const Decoder& d, double s) {
  const double attention = 2 * d.h * d.h + 2 * d.h * d.h / d.heads * d.kv_heads,
               mlp = 3 * d.h * d.f * d.k + d.h * d.experts;
  return 2 * (d.l * (attention + mlp) + d.V * d.h) + 4 * d.l * d.h * s;
}

/// BERT's encoder and masked-language head (Devlin et al. 2018): 12 h^2 a layer, h^2 and the word table again at its
/// end.
double bert_per_token(double l, double h, double V, double s) {
  return 2 * (l * 12 * h * h + h * h + V * h) + 4 * l * h * s;
}

/// DeepSeek-V3 (DeepSeek-AI 2024, sec. 4.2): latents of 1,536 and 512, 128 heads of 128 + 64 for keys and 128 for
/// values, 3 dense layers, 8 of 256 experts and a shared one; without its prediction module.
double deepseek_per_token(double s) {
  const double h = 7168, heads = 128,
               latent = h * 1536 + 1536 * heads * 192 + h * (512 + 64) + 512 * heads * 256 + heads * 128 * h;
  return 2 * (61 * latent + 3 * 3 * h * 18432 + 58 * (3 * h * 2048 * 9 + h * 256) + 129280 * h) +
         61 * 2 * heads * (192 + 128) * s;
}

double forward_per_token(const Network& n, std::int64_t s) {
  return model_flops(n, 1, s).value() / 3 / static_cast<double>(s);
}

void check(const char* what, double found, const Stated& stated) {
  INFO(what << ": " << fmt::format("{:.6g}", found) << ", stated " << fmt::format("{:.6g}", stated.value));
  CHECK(found == Approx(stated.value).epsilon(stated.within));
}

}  // namespace

TEST_CASE("parameters and FLOPs of the models that people know are the published ones") {
  for (const Row& row : table()) {
    INFO(row.model << " (" << row.source << ")");
    const Network n = network_of(row.model);
    check("parameters", static_cast<double>(n.parameter_count()), row.parameters);
    check("active parameters", static_cast<double>(n.active_parameter_count()),
          row.active.value > 0 ? row.active : row.parameters);
    if (row.kind != Flops::none) check("FLOPs", counted(n, row.kind), row.flops);
  }
}

TEST_CASE("forward FLOPs follow from the published dimensions, and stand in the models' table") {
  struct Forward {
    const char* model;
    std::int64_t s;
    double formula;
  };
  const std::vector<Forward> rows{{"llama2_7b", 128, per_token({32, 4096, 32, 32, 11008, 32000}, 128)},
                                  {"llama3_8b", 4096, per_token({32, 4096, 32, 8, 14336, 128256}, 4096)},
                                  {"llama3_70b", 4096, per_token({80, 8192, 64, 8, 28672, 128256}, 4096)},
                                  {"llama3_405b", 4096, per_token({126, 16384, 128, 8, 53248, 128256}, 4096)},
                                  {"mixtral_8x7b", 4096, per_token({32, 4096, 32, 8, 14336, 32000, 8, 2}, 4096)},
                                  {"deepseek_v3", 4096, deepseek_per_token(4096)},
                                  {"bert_large", 512, bert_per_token(24, 1024, 30522, 512)}};
  std::ifstream file(rehearse::testing::source_path("scenarios/models/README.md"));
  const std::string text(std::istreambuf_iterator<char>(file), {});
  for (const Forward& row : rows) {
    INFO(row.model);
    const double found = forward_per_token(network_of(row.model), row.s);
    CHECK(found == Approx(row.formula).epsilon(1e-12));
    const std::string cells = fmt::format("| `{}` | {} | {:.4g} |", row.model, row.s, found / 1e9);
    INFO(cells);
    CHECK(text.find(cells) != std::string::npos);
  }
}

TEST_CASE("forward FLOPs of Llama 2 are those that a profiler counts") {
  // calflops 0.2 (Ye 2023), README: 850.00 G multiply-adds for one sequence of 128 tokens.
  CHECK(forward_per_token(shipped("llama2_7b"), 128) * 128 / 2 == Approx(850.0e9).epsilon(1e-4));
}

TEST_CASE("Inception-v3 without its auxiliary classifier has 5.713 billion multiply-adds") {
  // torchvision model card, _ops, of the network as it is used.
  const Network n = build({{"model_type", "inception_v3"}, {"aux_logits", false}});
  check("multiply-adds", counted(n, Flops::multiply_adds), {5.713e9});
}

}  // namespace rehearse::test
