// DeepLab-v3+ (Chen et al. 2018, arXiv:1802.02611) on a residual backbone: dilated last stages, five parallel branches
// (atrous spatial pyramid pooling), and a decoder that joins them with the first stage's features at a quarter of the
// image's sides.

#include <fmt/format.h>

#include "core/model/architecture.hpp"
#include "core/model/images/residual_stages.hpp"

namespace rehearse {
namespace {

constexpr IntegerRange kDeeplabChannels{1, 1 << 16};

/// Sides of `to` over sides of `from`, which must be whole and equal on both.
std::int64_t factor(const ImageBuilder& net, ObjectReader& in, int from, int to) {
  const Shape &small = net.shape(from), &large = net.shape(to);
  const std::int64_t scale = large[2].size / small[2].size;
  if (small[2].size * scale != large[2].size || small[3].size * scale != large[3].size)
    in.fail("image_size", fmt::format("the image's sides must divide by output_stride"), "for example 512");
  return scale;
}

void pyramid(ImageBuilder& net, std::int64_t channels, std::int64_t output_stride) {
  net.begin("pyramid");
  const int x = net.at();
  std::vector<int> parts{conv_norm(net, "conv1x1", {.out = channels})};
  // Rates double with the resolution: 6, 12, 18 at output stride 16.
  for (const std::int64_t rate : {6, 12, 18}) {
    const std::int64_t r = rate * 16 / output_stride;
    net.use(x);
    parts.push_back(conv_norm(net, fmt::format("rate{}", rate),
                              {.out = channels, .window = {.kernel = {3}, .padding = {r}, .dilation = {r}}}));
  }
  // The image-level branch: one pooled pixel, spread again over all.
  const std::int64_t height = net.shape(x)[2].size, width = net.shape(x)[3].size;
  if (height == width) {
    net.use(x);
    net.pool("image_pool", {.kernel = {height}, .stride = {height}}, true);
    conv_norm(net, "image_conv", {.out = channels});
    parts.push_back(net.upsample("image_spread", height, true));
  }
  net.concat("concat", parts);
  conv_norm(net, "project", {.out = channels});
}

Network build_deeplab(ObjectReader& in) {
  ResidualConfig c = read_residual(in);
  c.output_stride = in.integer("output_stride", {8, 32}, 16);
  if (c.output_stride != 8 && c.output_stride != 16 && c.output_stride != 32) in.fail("output_stride", "8, 16 or 32");
  const std::int64_t channels = in.integer("decoder_channels", kDeeplabChannels, 256);
  c.low_level = in.integer("low_level_channels", kDeeplabChannels, 48);
  if (c.widths.size() < 2) in.fail("depths", "the decoder takes up the first of at least two stages");
  ImageBuilder net("deeplab_v3_plus", c.input, c.classes);
  net.begin_weights(ImageWeights::he);  // The backbone is torchvision's ResNet; its heads are modules as they come.
  add_residual_stages(net, c);
  net.begin_weights(ImageWeights::module);
  pyramid(net, channels, c.output_stride);
  net.begin("decoder");
  const int deep = net.at(), detail = net.find("stage2_first.low_level.relu");
  net.use(deep);
  net.concat("concat", {net.upsample("spread", factor(net, in, deep, detail), true), detail});
  conv_norm(net, "refine1", {.out = channels, .window = {.kernel = {3}, .padding = {1}}});
  conv_norm(net, "refine2", {.out = channels, .window = {.kernel = {3}, .padding = {1}}});
  net.convolution("logits", {.out = c.classes, .bias = true});
  net.upsample("to_image", 4, true);
  net.segment("loss");
  return std::move(net).finish();
}

[[maybe_unused]] const bool kDeeplabRegistered = architectures().add({
    "deeplab_v3_plus",
    "semantic segmentation: a dilated residual backbone, atrous spatial pyramid pooling and a decoder",
    {{"depths", "blocks per stage of the backbone", "3, 4, 6, 3"},
     {"output_stride", "image sides over those of the backbone's last stage: 8, 16 or 32", "16"},
     {"decoder_channels", "channels of pyramid and decoder", "256"},
     {"low_level_channels", "channels taken from the first stage", "48"},
     {"num_labels", "classes", "1000"},
     {"image_size", "height and width; image_height and image_width come before it", "224"}},
    {.build = build_deeplab, .read = {}},
});

}  // namespace
}  // namespace rehearse
