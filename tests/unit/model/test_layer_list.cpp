// Layer lists: what a reader may write, what shapes come out, and what is refused where.

#include "core/model/images/layer_list.hpp"
#include "tests/unit/model/models.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

/// One layer or several: compilers differ in what a list of one json in braces is.
nlohmann::json list(nlohmann::json layers, nlohmann::json input = {{"channels", 3}, {"height", 32}, {"width", 24}}) {
  if (layers.is_object()) layers = nlohmann::json::array({layers});
  return {{"schema", "rehearse/network/v1"},
          {"input", input},
          {"classes", 10},
          {"blocks", {{{"name", "net"}, {"layers", layers}}}}};
}

/// Sides of what the last of `layers` makes of a 32 x 24 image.
std::vector<std::int64_t> sides(nlohmann::json layer,
                                nlohmann::json input = {{"channels", 4}, {"height", 32}, {"width", 24}}) {
  const Network n = build(list({std::move(layer), {{"op", "relu"}, {"name", "end"}}}, std::move(input)));
  const TensorSpec* t = find(n.blocks[0].tensors, "end");
  std::vector<std::int64_t> out;
  for (std::size_t d = 2; d < t->shape.size(); ++d) out.push_back(t->shape[d].size);
  return out;
}

using Sides = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("windows shorten sides as they do everywhere") {
  CHECK(sides({{"op", "conv2d"}, {"out", 8}, {"kernel", 3}}) == Sides{30, 22});
  CHECK(sides({{"op", "conv2d"}, {"out", 8}, {"kernel", 3}, {"padding", 1}, {"stride", 2}}) == Sides{16, 12});
  CHECK(sides({{"op", "conv2d"}, {"out", 8}, {"kernel", 3}, {"padding", 2}, {"dilation", 2}}) == Sides{32, 24});
  CHECK(sides({{"op", "conv2d"}, {"out", 8}, {"kernel", {1, 7}}, {"padding", {0, 3}}}) == Sides{32, 24});
  CHECK(sides({{"op", "conv2d"}, {"out", 8}, {"kernel", 2}, {"same", true}}) == Sides{32, 24});
  CHECK(sides({{"op", "conv2d"}, {"out", 8}, {"kernel", 5}, {"stride", 3}, {"same", true}}) == Sides{11, 8});
  CHECK(sides({{"op", "max_pool"}, {"kernel", 3}, {"stride", 2}}) == Sides{15, 11});
  CHECK(sides({{"op", "max_pool"}, {"kernel", 3}, {"stride", 2}, {"ceil", true}}) == Sides{16, 12});
  CHECK(sides({{"op", "transposed_conv"}, {"out", 8}, {"kernel", 2}, {"stride", 2}}) == Sides{64, 48});
  CHECK(sides({{"op", "upsample"}, {"scale", 3}}) == Sides{96, 72});
  CHECK(sides({{"op", "conv3d"}, {"out", 8}, {"kernel", 3}, {"padding", 1}, {"stride", {1, 2, 2}}},
              {{"channels", 1}, {"depth", 16}, {"height", 32}, {"width", 32}}) == Sides{16, 16, 16});
}

TEST_CASE("parameters of the kinds of convolutions") {
  const auto parameters = [](nlohmann::json layer) {
    return build(list({std::move(layer)}, {{"channels", 8}, {"height", 9}, {"width", 9}})).parameter_count();
  };
  CHECK(parameters({{"op", "conv2d"}, {"out", 16}, {"kernel", 3}, {"bias", true}}) == 16 * 8 * 9 + 16);
  CHECK(parameters({{"op", "conv2d"}, {"out", 16}, {"kernel", 3}, {"groups", 4}}) == 16 * 2 * 9);
  CHECK(parameters({{"op", "depthwise_conv"}, {"kernel", 3}, {"multiplier", 2}}) == 16 * 9);
  CHECK(parameters({{"op", "gated_conv"}, {"out", 16}, {"kernel", 3}}) == 2 * 16 * 8 * 9);
  CHECK(parameters({{"op", "transposed_conv"}, {"out", 16}, {"kernel", 2}, {"stride", 2}}) == 16 * 8 * 4);
  CHECK(parameters({{"op", "batch_norm"}}) == 16);
  CHECK(parameters({{"op", "linear"}, {"out", 5}}) == 8 * 81 * 5 + 5);
}

TEST_CASE("a transposed convolution does the operations of the one it is the gradient of") {
  const nlohmann::json narrow{{"channels", 8}, {"height", 8}, {"width", 8}},
      wide{{"channels", 4}, {"height", 16}, {"width", 16}};
  const auto flops = [](nlohmann::json layer, nlohmann::json input) {
    return model_flops(build(list({std::move(layer)}, std::move(input))), 3, 0);
  };
  CHECK(flops({{"op", "transposed_conv"}, {"out", 4}, {"kernel", 2}, {"stride", 2}}, narrow) ==
        flops({{"op", "conv2d"}, {"out", 8}, {"kernel", 2}, {"stride", 2}}, wide));
}

TEST_CASE("branches, joins and blocks") {
  nlohmann::json net =
      list({{{"op", "conv2d"}, {"name", "a"}, {"out", 6}, {"kernel", 1}, {"then", {"batch_norm", "relu"}}},
            {{"op", "conv2d"}, {"name", "b"}, {"from", "image"}, {"out", 2}, {"kernel", 1}},
            {{"op", "concat"}, {"from", {"a.relu", "b"}}}});
  net["blocks"].push_back(
      {{"name", "body"}, {"repeat", 3}, {"layers", {{{"op", "relu"}}, {{"op", "add"}, {"from", {"input", "relu"}}}}}});
  net["blocks"].push_back(
      {{"name", "head"}, {"layers", {{{"op", "global_pool"}}, {{"op", "linear"}}, {{"op", "softmax_loss"}}}}});
  const Network n = build(net);
  CHECK(n.layers() == 5);
  CHECK(n.uneven());
  CHECK_FALSE(n.sequences);
  CHECK(find(block(n, "net").tensors, "concat")->shape[1].size == 8);
  CHECK(find(block(n, "head").tensors, "linear")->shape.back().size == 10);
  CHECK(find(block(n, "head").tensors, "softmax_loss.labels")->integer);
}

TEST_CASE("a skip connection reads inside an earlier block") {
  const Network n = shipped("unet");
  const TensorSpec* skip = find(block(n, "up1").tensors, "down1.conv2.relu");
  REQUIRE(skip != nullptr);
  CHECK(skip->from == "down1.conv2.relu");
  CHECK(find_skip(n, skip->from).first == 0);
}

TEST_CASE("what does not fit is refused at its place") {
  const auto where = [](nlohmann::json layer) { return refusal(list({std::move(layer)})); };
  CHECK(where({{"op", "conv2"}, {"out", 8}}).where == "test.json: /blocks/0/layers/0/op");
  CHECK(where({{"op", "conv2"}}).hint.find("conv2d") != std::string::npos);
  CHECK(where({{"op", "conv2d"}, {"out", 8}, {"kernal", 3}}).where.find("/blocks/0/layers/0") != std::string::npos);
  CHECK(where({{"op", "conv2d"}, {"out", 8}, {"kernel", 99}}).where.find("net/conv2d") != std::string::npos);
  CHECK(where({{"op", "conv3d"}, {"out", 8}, {"kernel", 3}}).where == "test.json: /blocks/0/layers/0/op");
  CHECK(where({{"op", "conv2d"}, {"out", 8}, {"kernel", 3}, {"groups", 2}}).where.find("net/conv2d") !=
        std::string::npos);
  CHECK(where({{"op", "relu"}, {"from", "elsewhere"}}).where == "test.json: /blocks/0/layers/0/from");
  CHECK(where({{"op", "add"}, {"from", {"image"}}}).where == "test.json: /blocks/0/layers/0/from");
  CHECK(where({{"op", "softmax_loss"}, {"then", {"rely"}}}).hint.find("relu") != std::string::npos);
  nlohmann::json grows = list({{{"op", "relu"}}});
  grows["blocks"].push_back(
      {{"name", "body"}, {"repeat", 2}, {"layers", {{{"op", "conv2d"}, {"out", 8}, {"kernel", 3}}}}});
  CHECK(std::string(refusal(grows).what()).find("does not take") != std::string::npos);
}

TEST_CASE("a skip past the end of a block, or out of a repeated one, is refused") {
  nlohmann::json net = list({{{"op", "relu"}}});
  net["blocks"].push_back({{"name", "next"}, {"layers", {{{"op", "relu"}}}}});
  net["blocks"].push_back(
      {{"name", "last"}, {"layers", {{{"op", "relu"}}, {{"op", "add"}, {"from", {"relu", "net.relu"}}}}}});
  CHECK(std::string(refusal(net).what()).find("handed on") != std::string::npos);
}

TEST_CASE("image sides come from the scenario where it gives them") {
  const Network n = library().load("unet", {}, {256, 128});
  CHECK(n.blocks[0].tensors[0].shape[2].size == 256);
  CHECK(n.blocks[0].tensors[0].shape[3].size == 128);
  CHECK(library().load("resnet50", {}, {448, 0}).blocks[0].tensors[0].shape[2].size == 448);
  CHECK_THROWS_AS(library().load("gpt2", {}, {256, 256}), Error);
}

TEST_CASE("every kind of layer is described") {
  for (const auto& kind : layer_kinds().entries()) {
    INFO(kind.name);
    CHECK_FALSE(kind.summary.empty());
  }
}

TEST_CASE("a discriminator follows what it judges, and its last layer says what it takes samples for") {
  const nlohmann::json judge = {
      {{"name", "down"},
       {"layers", {{{"op", "conv2d"}, {"out", 4}, {"kernel", 2}, {"stride", 2}, {"then", {"leaky_relu"}}}}}},
      {{"name", "score"},
       {"layers", {{{"op", "linear"}, {"out", 1}}, {{"op", "adversarial_loss"}, {"form", "hinge"}}}}}};
  nlohmann::json gan = list({{{"op", "transposed_conv"}, {"out", 3}, {"kernel", 8}, {"then", {"tanh"}}}},
                            {{"channels", 5}, {"height", 1}, {"width", 1}, {"noise", true}});
  CHECK_FALSE(build(gan).adversarial());
  gan["discriminator"] = {{"blocks", judge}};
  const Network n = build(gan);
  CHECK(n.discriminator == 1);
  CHECK(n.blocks.front().tensors.front().name == "noise");
  CHECK(block(n, "down").tensors[0].shape[1].size == 3);
  CHECK(block(n, "score").ops.back().hinge);
  // Three forwards, two backwards for its weights and half a one for the generator's: 8 forwards; the generator trains
  // with 3.
  const auto forward = [&](std::size_t from, std::size_t to) {
    double flops = 0;
    for (std::size_t b = from; b < to; ++b)
      for (const OpSpec& op : n.blocks[b].ops) flops += forward_matmul_flops(n.blocks[b], op, 2, 0, false).value();
    return flops;
  };
  CHECK(model_flops(n, 2, 0).value() == 3 * forward(0, 1) + 8 * forward(1, 3));

  nlohmann::json bad = gan;
  bad["discriminator"]["blocks"][1]["layers"][1] = {{"op", "softmax_loss"}};
  CHECK(std::string(refusal(bad).what()).find("last layer of a discriminator") != std::string::npos);
  bad = gan;
  bad["blocks"][0]["layers"].push_back({{"op", "adversarial_loss"}});
  CHECK(std::string(refusal(bad).what()).find("last block of a discriminator") != std::string::npos);
  bad = gan;
  bad["blocks"][0]["layers"].push_back({{"op", "relu"}, {"name", "end"}});
  bad["discriminator"]["blocks"][0]["layers"].push_back(
      {{"op", "conv2d"}, {"name", "own"}, {"out", 3}, {"kernel", 1}, {"from", "net.transposed_conv"}});
  CHECK(std::string(refusal(bad).what()).find("generator's own") != std::string::npos);
  bad = gan;
  bad["discriminator"]["blocks"] = nlohmann::json::array();
  CHECK(refusal(bad).where.find("/discriminator") != std::string::npos);
}
