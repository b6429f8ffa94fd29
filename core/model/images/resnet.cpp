// Residual networks (He et al. 2015) in the form that Hugging Face's `resnet` configurations describe.

#include <cmath>

#include <fmt/format.h>

#include "core/model/architecture.hpp"
#include "core/model/images/residual_stages.hpp"

namespace rehearse {
namespace {

constexpr IntegerRange kResnetChannels{1, 1 << 16};
constexpr IntegerRange kResnetSide{1, 1 << 20};
constexpr IntegerRange kDepth{1, 1000};

std::vector<std::int64_t> list(ObjectReader& in, const std::string& key, IntegerRange range,
                               const std::vector<std::int64_t>& fallback) {
  in.expect(key);
  if (!in.has(key)) return fallback;
  std::vector<std::int64_t> out;
  for (const double v : in.numbers(key, {static_cast<double>(range.min), static_cast<double>(range.max)})) {
    if (v != std::floor(v)) in.fail(key, "sizes are whole numbers");
    out.push_back(static_cast<std::int64_t>(v));
  }
  return out;
}

/// What one block of a stage does to the image.
struct Step {
  std::int64_t width, stride, dilation;
};

void bottleneck(ImageBuilder& net, const ResidualConfig& c, const Step& s) {
  const std::int64_t inner = s.width / 4, first = c.stride_first ? s.stride : 1;
  conv_norm(net, "conv1", {.out = inner, .window = {.stride = {first}}});
  conv_norm(
      net, "conv2",
      {.out = inner,
       .window = {.kernel = {3}, .stride = {s.stride / first}, .padding = {s.dilation}, .dilation = {s.dilation}}});
  conv_norm(net, "conv3", {.out = s.width}, false);
}

void basic(ImageBuilder& net, const Step& s) {
  conv_norm(net, "conv1",
            {.out = s.width,
             .window = {.kernel = {3}, .stride = {s.stride}, .padding = {s.dilation}, .dilation = {s.dilation}}});
  conv_norm(net, "conv2",
            {.out = s.width, .window = {.kernel = {3}, .padding = {s.dilation}, .dilation = {s.dilation}}}, false);
}

void residual_block(ImageBuilder& net, const ResidualConfig& c, const Step& s) {
  const int x = net.at();
  const bool project = s.stride > 1 || net.channels(x) != s.width;
  if (c.bottleneck)
    bottleneck(net, c, s);
  else
    basic(net, s);
  const int branch = net.at();
  net.use(x);
  const int shortcut =
      project ? conv_norm(net, "shortcut", {.out = s.width, .window = {.stride = {s.stride}}}, false) : x;
  net.add("add", branch, shortcut);
  net.relu("relu");
}

Network build_resnet(ObjectReader& in) {
  const ResidualConfig c = read_residual(in);
  ImageBuilder net("resnet", c.input, c.classes);
  net.begin_weights(ImageWeights::he);
  add_residual_stages(net, c);
  net.begin("head");
  net.global_pool("pool");
  net.linear("logits", c.classes);
  net.classify("loss");
  return std::move(net).finish();
}

[[maybe_unused]] const bool kResnetRegistered = architectures().add({
    "resnet",
    "residual networks: ResNet-18 to 152, stride in the 3 x 3 (v1.5) or the first 1 x 1 (v1)",
    {{"depths", "blocks per stage", "3, 4, 6, 3"},
     {"hidden_sizes", "channels per stage", "256, 512, 1024, 2048"},
     {"embedding_size", "channels of the first convolution", "64"},
     {"layer_type", "bottleneck or basic", "bottleneck"},
     {"downsample_in_bottleneck", "stride in the first 1 x 1 convolution", "false"},
     {"num_channels", "channels of the image", "3"},
     {"num_labels", "classes", "1000"},
     {"image_size", "height and width; image_height and image_width come before it", "224"}},
    {.build = build_resnet, .read = {}},
});

}  // namespace

std::vector<std::int64_t> read_image_sides(ObjectReader& in, std::int64_t fallback) {
  const std::int64_t both = in.integer("image_size", kResnetSide, fallback);
  return {in.integer("image_height", kResnetSide, both), in.integer("image_width", kResnetSide, both)};
}

ResidualConfig read_residual(ObjectReader& in) {
  ResidualConfig c;
  c.input = {in.integer("num_channels", kResnetChannels, 3), read_image_sides(in, 224)};
  c.classes = in.integer("num_labels", kResnetChannels, 1000);
  c.stem = in.integer("embedding_size", kResnetChannels, 64);
  c.widths = list(in, "hidden_sizes", kResnetChannels, c.widths);
  c.depths = list(in, "depths", kDepth, c.depths);
  const std::vector<std::string> types{"bottleneck", "basic"};
  c.bottleneck = in.choice("layer_type", types, "bottleneck") == "bottleneck";
  c.stride_first = in.boolean("downsample_in_bottleneck", false);
  if (c.widths.empty() || c.widths.size() != c.depths.size())
    in.fail("hidden_sizes", fmt::format("{} sizes for {} stages", c.widths.size(), c.depths.size()),
            "one per entry of depths");
  for (const auto w : c.widths)
    if (c.bottleneck && w % 4 != 0)
      in.fail("hidden_sizes", fmt::format("{} does not divide by 4, as a bottleneck needs", w));
  if (in.boolean("downsample_in_first_stage", false))
    in.fail("downsample_in_first_stage", "the first stage does not stride");
  return c;
}

int conv_norm(ImageBuilder& net, const std::string& name, const ConvolutionOptions& options, bool relu) {
  net.convolution(name, options);
  const int y = net.batch_norm(name + ".norm");
  return relu ? net.relu(name + ".relu") : y;
}

void add_residual_stages(ImageBuilder& net, const ResidualConfig& c) {
  net.begin("stem");
  conv_norm(net, "conv", {.out = c.stem, .window = {.kernel = {7}, .stride = {2}, .padding = {3}}});
  net.pool("pool", {.kernel = {3}, .stride = {2}, .padding = {1}});
  std::int64_t stride_so_far = 4, dilation = 1;
  for (std::size_t i = 0; i < c.widths.size(); ++i) {
    std::int64_t stride = i == 0 ? 1 : 2;
    const std::int64_t before = dilation;
    if (stride_so_far * stride > c.output_stride) {
      dilation *= stride;
      stride = 1;
    }
    stride_so_far *= stride;
    const std::string stage = fmt::format("stage{}", i + 1);
    net.begin(stage + "_first");
    if (i == 1 && c.low_level > 0) {
      const int x = net.at();
      conv_norm(net, "low_level", {.out = c.low_level});
      net.use(x);
    }
    residual_block(net, c, {c.widths[i], stride, before});
    if (c.depths[i] == 1) continue;
    net.begin(stage, static_cast<int>(c.depths[i]) - 1);
    residual_block(net, c, {c.widths[i], 1, dilation});
  }
}

}  // namespace rehearse
