// Parameters and multiply-adds of the shipped image models are those their sources state.

#include <fstream>

#include "core/base/index.hpp"
#include "core/model/operator_count.hpp"
#include "tests/support/source_path.hpp"
#include "tests/unit/model/models.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

/// Multiply-adds of one forward pass, in 1e9: half of a third of model_flops.
double gmacs(const Network& n) { return model_flops(n, 1, 0).value() / 6e9; }

nlohmann::json resnet(std::vector<int> depths) { return {{"model_type", "resnet"}, {"depths", depths}}; }

}  // namespace

TEST_CASE("parameters of image models are the published counts") {
  // torchvision model cards, num_params.
  CHECK(shipped("resnet50").parameter_count() == 25'557'032);
  CHECK(shipped("resnet101").parameter_count() == 44'549'160);
  CHECK(shipped("resnet152").parameter_count() == 60'192'808);
  CHECK(shipped("vgg16").parameter_count() == 138'357'544);
  CHECK(shipped("alexnet").parameter_count() == 61'100'840);
  CHECK(shipped("inception_v3").parameter_count() == 27'161'264);
  CHECK(build({{"model_type", "inception_v3"}, {"aux_logits", false}}).parameter_count() == 23'834'568);
  // Where the stride stands changes no parameter.
  CHECK(shipped("resnet50_v1").parameter_count() == 25'557'032);
  // Krizhevsky et al. 2012: Caffe's bvlc_alexnet, and the same without groups.
  CHECK(shipped("alexnet_2012").parameter_count() == 60'965'224);
  // Window times channels in and out plus a bias, twice where gated.
  CHECK(shipped("video_inpainting").parameter_count() == 26'247'971);
  // Keras U-Net of zhixuhao/unet: model.summary().
  CHECK(shipped("unet").parameter_count() == 31'031'685);
}

TEST_CASE("DCGANs have the parameters of their layers") {
  // Radford et al. 2015, fig. 1: 100 numbers to 4 x 4 x 1024, then 5 x 5 windows to 512, 256, 128 and 3 channels; two
  // numbers per channel of batch norm.
  const Network n = shipped("dcgan");
  REQUIRE(n.adversarial());
  std::int64_t generator = 0;
  for (int b = 0; b < n.discriminator; ++b) generator += nth(n.blocks, b).parameter_count();
  CHECK(generator ==
        100 * 1024 * 16 + 25 * (1024 * 512 + 512 * 256 + 256 * 128 + 128 * 3) + 2 * (1024 + 512 + 256 + 128));
  CHECK(n.parameter_count() - generator ==
        25 * (3 * 128 + 128 * 256 + 256 * 512 + 512 * 1024) + 2 * (256 + 512 + 1024) + 16 * 1024);
  // pytorch/examples, dcgan: half the channels, 4 x 4 windows; its networks have 3,576,704 and 2,765,568.
  std::ifstream file(rehearse::testing::source_path("scenarios/models/dcgan/config.json"));
  nlohmann::json config = nlohmann::json::parse(file);
  const auto halve = [](nlohmann::json& blocks) {
    for (auto& block : blocks)
      for (auto& layer : block["layers"]) {
        if (layer.contains("out") && layer["out"] > 3) layer["out"] = layer["out"].get<int>() / 2;
        if (layer.contains("kernel")) layer["kernel"] = 4;
      }
  };
  halve(config["blocks"]);
  halve(config["discriminator"]["blocks"]);
  const Network half = build(config);
  generator = 0;
  for (int b = 0; b < half.discriminator; ++b) generator += nth(half.blocks, b).parameter_count();
  CHECK(generator == 3'576'704);
  CHECK(half.parameter_count() - generator == 2'765'568);
}

TEST_CASE("smaller residual networks follow from their keys") {
  nlohmann::json r34 = resnet({3, 4, 6, 3}), r18 = resnet({2, 2, 2, 2});
  for (auto* r : {&r18, &r34}) r->update({{"layer_type", "basic"}, {"hidden_sizes", {64, 128, 256, 512}}});
  CHECK(build(r18).parameter_count() == 11'689'512);  // torchvision
  CHECK(build(r34).parameter_count() == 21'797'672);
}

TEST_CASE("AlexNet without groups has 62.4 M parameters") {
  std::ifstream file(rehearse::testing::source_path("scenarios/models/alexnet_2012/config.json"));
  nlohmann::json config = nlohmann::json::parse(file);
  for (auto& block : config["blocks"])
    for (auto& layer : block["layers"]) layer.erase("groups");
  CHECK(build(config).parameter_count() == 62'378'344);
}

TEST_CASE("multiply-adds of image models are the published ones") {
  // torchvision model cards, _ops: ResNets with the stride in the 3 x 3.
  CHECK(gmacs(shipped("resnet50")) == Approx(4.089).epsilon(0.0005));
  CHECK(gmacs(shipped("resnet101")) == Approx(7.801).epsilon(0.0005));
  CHECK(gmacs(shipped("resnet152")) == Approx(11.514).epsilon(0.0005));
  CHECK(gmacs(shipped("vgg16")) == Approx(15.470).epsilon(0.0005));
  CHECK(gmacs(shipped("alexnet")) == Approx(0.714).epsilon(0.001));
  CHECK(gmacs(build({{"model_type", "inception_v3"}, {"aux_logits", false}})) == Approx(5.713).epsilon(0.0005));
  // He et al. 2015, table 1: 3.8e9 with the stride in the first 1 x 1.
  CHECK(gmacs(shipped("resnet50_v1")) == Approx(3.86).epsilon(0.005));
}

TEST_CASE("operators add up to the network") {
  for (const char* name : {"resnet50", "unet", "deeplab_v3_plus", "mlp"}) {
    const Network n = shipped(name);
    std::int64_t parameters = 0;
    double flops = 0;
    for (const OperatorCount& c : count_operators(n, 2, 0)) {
      parameters += c.repeat * c.parameters;
      flops += c.repeat * c.forward_flops.value();
    }
    CHECK(parameters == n.parameter_count());
    CHECK(3 * flops == Approx(model_flops(n, 2, 0).value()).epsilon(1e-12));
  }
}

TEST_CASE("DeepLab-v3+ keeps the backbone's parameters and dilates its last stage") {
  const Network n = shipped("deeplab_v3_plus");
  const Network backbone = build(resnet({3, 4, 23, 3}));
  std::int64_t shared = 0;
  for (const BlockSpec& b : backbone.blocks)
    if (b.name != "head") shared += b.parameter_count();
  std::int64_t own = 0;
  for (const BlockSpec& b : n.blocks)
    if (b.name == "stem" || b.name.starts_with("stage")) own += b.parameter_count();
  CHECK(own - shared == 256 * 48 + 2 * 48);  // The low-level branch: 1 x 1 convolution and batch norm.
  const OpSpec* conv = find(block(n, "stage4").ops, "conv2");
  REQUIRE(conv != nullptr);
  CHECK(conv->window == std::vector<WindowDim>(2, {3, 1, 2, 2}));
  CHECK(block(n, "stage4").tensors[0].shape[2].size == 32);  // 512 / 16.
}
