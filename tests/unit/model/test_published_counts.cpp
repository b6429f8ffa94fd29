// One table of what sources state about models that people know: parameters, those that a token meets, and FLOPs. Within 0.1 % where the source gives
// the digits, within its last digit where it gives fewer. The other files of this folder say why.

#include <fstream>

#include <fmt/format.h>

#include "models.hpp"
#include "tests/support/source_path.hpp"

namespace rehearse::test {
namespace {

/// A stated figure and how far its digits reach, relative.
struct Stated { double value = 0, within = 0.001; };

enum class Flops { none, multiply_adds, per_token };

struct Row {
  const char* model;
  Stated parameters;
  Stated active;  ///< 0: all.
  Flops kind;
  Stated flops;   ///< multiply_adds: of one forward pass of one sample; per_token: forward and backward, without attention's products.
  const char* source;
};

const std::vector<Row>& table() {
  static const std::vector<Row> rows{
      {"gpt3_175b", {174.6e9}, {}, Flops::per_token, {3.14e23 / 300e9}, "Brown et al. 2020, table D.1: 174,600 M, 3.14e23 FLOPs for 300 B tokens"},
      {"llama3_8b", {8'030'261'248}, {}, Flops::none, {}, "size of the released safetensors, meta-llama/Meta-Llama-3-8B"},
      {"llama3_70b", {70'553'706'496}, {}, Flops::none, {}, "size of the released safetensors, meta-llama/Meta-Llama-3-70B"},
      {"llama3_405b", {405'853'388'800}, {}, Flops::per_token, {3.8e25 / 15.6e12, 0.0132}, "size of the released safetensors; Dubey et al. 2024: 3.8e25 FLOPs for 15.6 T tokens"},
      {"mixtral_8x7b", {46.7e9}, {12.9e9, 0.004}, Flops::none, {}, "Mistral AI 2023, announcement: 46.7 B in all, 12.9 B per token"},
      {"deepseek_v3", {671.0e9}, {37.0e9, 0.02}, Flops::none, {}, "DeepSeek-AI 2024: 671 B in all, 37 B per token; the prediction module apart"},
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
Network network_of(const Row& row) {
  if (std::string(row.model) != "deepseek_v3") return shipped(row.model);
  std::ifstream file(rehearse::testing::source_path("scenarios/models/deepseek_v3/config.json"));
  auto config = nlohmann::json::parse(file);
  config["num_nextn_predict_layers"] = 0;
  return build(config);
}

double products_but_attention(const Network& n, std::int64_t s) {
  double forward = 0;
  for (std::size_t i = 0; i < n.blocks.size(); ++i)
    for (const OpSpec& op : n.blocks[i].ops)
      if (op.kind != OpKind::attention) forward += n.repeat[i] * forward_matmul_flops(n.blocks[i], op, 1, s, false).value();
  return forward;
}

double counted(const Network& n, Flops kind) {
  if (kind == Flops::multiply_adds) return model_flops(n, 1, 0).value() / 6;
  return 3 * products_but_attention(n, 2048) / 2048;
}

void check(const char* what, double found, const Stated& stated) {
  INFO(what << ": " << fmt::format("{:.6g}", found) << ", stated " << fmt::format("{:.6g}", stated.value));
  CHECK(found == Approx(stated.value).epsilon(stated.within));
}

}  // namespace

TEST_CASE("parameters and FLOPs of the models that people know are the published ones") {
  for (const Row& row : table()) {
    INFO(row.model << " (" << row.source << ")");
    const Network n = network_of(row);
    check("parameters", static_cast<double>(n.parameter_count()), row.parameters);
    check("active parameters", static_cast<double>(n.active_parameter_count()), row.active.value > 0 ? row.active : row.parameters);
    if (row.kind != Flops::none) check("FLOPs", counted(n, row.kind), row.flops);
  }
}

TEST_CASE("Inception-v3 without its auxiliary classifier has 5.713 billion multiply-adds") {
  // torchvision model card, _ops, of the network as it is used.
  const Network n = build({{"model_type", "inception_v3"}, {"aux_logits", false}});
  check("multiply-adds", counted(n, Flops::multiply_adds), {5.713e9});
}

}  // namespace rehearse::test
