// Inception-v3 (Szegedy et al. 2015, arXiv:1512.00567), channel by channel as the authors released it and torchvision
// keeps it.

#include <fmt/format.h>

#include "core/model/architecture.hpp"
#include "core/model/images/image_builder.hpp"
#include "core/model/images/residual_stages.hpp"

namespace rehearse {
namespace {

using Sizes = std::vector<std::int64_t>;

/// A convolution with batch norm and relu, padded so that a stride of 1 keeps the sides.
struct Conv {
  std::int64_t out;
  Sizes kernel{1};
  std::int64_t stride = 1;
  bool pad = true;
};

class Inception {
 public:
  Inception(ImageInput input, std::int64_t classes, double dropout, bool auxiliary)
      : net_("inception_v3", std::move(input), classes), dropout_(dropout), auxiliary_(auxiliary) {}

  Network build() && {
    net_.begin_weights(ImageWeights::inception);
    stem();
    for (const std::int64_t pool : {32, 64, 64}) mixed_35(pool);
    shrink_35();
    for (const std::int64_t inner : {128, 160, 160, 192}) mixed_17(inner);
    shrink_17();
    for (int i = 0; i < 2; ++i) mixed_8();
    net_.begin("head");
    net_.global_pool("pool");
    net_.dropout("dropout", dropout_);
    net_.linear("logits", net_.classes());
    net_.classify("loss");
    return std::move(net_).finish();
  }

 private:
  int conv(const std::string& name, const Conv& c) {
    Sizes padding;
    for (const std::int64_t k : c.kernel) padding.push_back(c.pad ? k / 2 : 0);
    return conv_norm(net_, name,
                     {.out = c.out, .window = {.kernel = c.kernel, .stride = {c.stride}, .padding = padding}});
  }

  /// A chain of convolutions from `x`; returns what the last one makes.
  int branch(int x, const std::string& name, const std::vector<Conv>& chain) {
    net_.use(x);
    int i = 0;
    for (const Conv& c : chain) conv(fmt::format("{}.{}", name, ++i), c);
    return net_.at();
  }

  int pooled(int x, std::int64_t out) {
    net_.use(x);
    net_.pool("pool", {.kernel = {3}, .stride = {1}, .padding = {1}}, true);
    return conv("pool.1", {out});
  }

  int begin() {
    net_.begin(fmt::format("mixed{}", ++mixed_));
    return net_.at();
  }

  void stem() {
    net_.begin("stem");
    conv("conv1", {32, {3}, 2, false});
    conv("conv2", {32, {3}, 1, false});
    conv("conv3", {64, {3}});
    net_.pool("pool1", {.kernel = {3}, .stride = {2}});
    conv("conv4", {80});
    conv("conv5", {192, {3}, 1, false});
    net_.pool("pool2", {.kernel = {3}, .stride = {2}});
  }

  void mixed_35(std::int64_t pool) {
    const int x = begin();
    const std::vector<int> parts{branch(x, "a", {{64}}), branch(x, "b", {{48}, {64, {5}}}),
                                 branch(x, "c", {{64}, {96, {3}}, {96, {3}}}), pooled(x, pool)};
    net_.concat("concat", parts);
  }

  void shrink_35() {
    const int x = begin();
    std::vector<int> parts{branch(x, "a", {{384, {3}, 2, false}}),
                           branch(x, "b", {{64}, {96, {3}}, {96, {3}, 2, false}})};
    net_.use(x);
    parts.push_back(net_.pool("pool", {.kernel = {3}, .stride = {2}}));
    net_.concat("concat", parts);
  }

  void mixed_17(std::int64_t n) {
    const int x = begin();
    const std::vector<int> parts{branch(x, "a", {{192}}), branch(x, "b", {{n}, {n, {1, 7}}, {192, {7, 1}}}),
                                 branch(x, "c", {{n}, {n, {7, 1}}, {n, {1, 7}}, {n, {7, 1}}, {192, {1, 7}}}),
                                 pooled(x, 192)};
    net_.concat("concat", parts);
  }

  void shrink_17() {
    const int x = begin();
    if (auxiliary_) auxiliary(x);
    std::vector<int> parts{branch(x, "a", {{192}, {320, {3}, 2, false}}),
                           branch(x, "b", {{192}, {192, {1, 7}}, {192, {7, 1}}, {192, {3}, 2, false}})};
    net_.use(x);
    parts.push_back(net_.pool("pool", {.kernel = {3}, .stride = {2}}));
    net_.concat("concat", parts);
  }

  /// A second loss on what the last 17 x 17 block hands on.
  void auxiliary(int x) {
    net_.use(x);
    net_.pool("aux.pool", {.kernel = {5}, .stride = {3}}, true);
    conv("aux.1", {128});
    conv("aux.2", {768, {5}, 1, false});
    net_.begin_weights(ImageWeights::inception, 0.001);  // torchvision's InceptionAux.fc.stddev.
    net_.linear("aux.logits", net_.classes());
    net_.begin_weights(ImageWeights::inception);
    net_.classify("aux.loss");
  }

  void mixed_8() {
    const int x = begin();
    std::vector<int> parts{branch(x, "a", {{320}})};
    const auto split = [&](int from, const std::string& name) {
      for (const Sizes& kernel : {Sizes{1, 3}, Sizes{3, 1}})
        parts.push_back(branch(from, fmt::format("{}.{}x{}", name, kernel[0], kernel[1]), {{384, kernel}}));
    };
    split(branch(x, "b", {{384}}), "b");
    split(branch(x, "c", {{448}, {384, {3}}}), "c");
    parts.push_back(pooled(x, 192));
    net_.concat("concat", parts);
  }

  ImageBuilder net_;
  double dropout_;
  bool auxiliary_;
  int mixed_ = 0;
};

Network build_inception_v3(ObjectReader& in) {
  ImageInput input{in.integer("num_channels", {1, 1 << 16}, 3), read_image_sides(in, 299)};
  const std::int64_t classes = in.integer("num_labels", {1, 1 << 22}, 1000);
  const double dropout = in.number("dropout", {0.0, 0.99}, 0.5);
  return Inception(std::move(input), classes, dropout, in.boolean("aux_logits", true)).build();
}

[[maybe_unused]] const bool kInceptionV3Registered = architectures().add({
    "inception_v3",
    "Inception-v3: parallel branches of small convolutions, an auxiliary loss",
    {{"aux_logits", "a second loss on the last 17 x 17 block", "true"},
     {"dropout", "before the last layer", "0.5"},
     {"num_channels", "channels of the image", "3"},
     {"num_labels", "classes", "1000"},
     {"image_size", "height and width; image_height and image_width come before it", "299"}},
    {.build = build_inception_v3, .read = {}},
});

}  // namespace
}  // namespace rehearse
