// The kinds of layers that a layer list may hold: one row each.

#include <nlohmann/json.hpp>

#include "core/model/images/image_builder.hpp"
#include "core/model/images/layer_list.hpp"

namespace rehearse {
namespace {

constexpr IntegerRange kLayerKindsSize{1, std::int64_t{1} << 22};
constexpr IntegerRange kReach{1, 4096};
constexpr IntegerRange kPadding{0, 4096};

/// A number, or one per side.
std::vector<std::int64_t> sizes(ObjectReader& in, const std::string& key, IntegerRange range,
                                std::vector<std::int64_t> fallback) {
  in.expect(key);
  if (!in.has(key)) return fallback;
  if (const auto* raw = in.raw(key); raw == nullptr || !raw->is_array()) return {in.integer(key, range)};
  std::vector<std::int64_t> out;
  for (const double v : in.numbers(key, {static_cast<double>(range.min), static_cast<double>(range.max)})) {
    if (v != static_cast<double>(static_cast<std::int64_t>(v))) in.fail(key, "sizes are whole numbers");
    out.push_back(static_cast<std::int64_t>(v));
  }
  if (out.empty() || out.size() > 3) in.fail(key, "give one number, or one per side");
  return out;
}

WindowOptions window(ObjectReader& in, bool pool) {
  WindowOptions w;
  w.kernel = sizes(in, "kernel", kReach, {});
  if (w.kernel.empty()) in.fail("kernel", "missing", "the length of the window, for example 3");
  w.stride = sizes(in, "stride", kReach, pool ? w.kernel : std::vector<std::int64_t>{1});
  w.padding = sizes(in, "padding", kPadding, {0});
  if (!pool) w.dilation = sizes(in, "dilation", kReach, {1});
  w.same = in.boolean("same", false);
  if (pool) w.ceil = in.boolean("ceil", false);
  if (w.same && in.has("padding")) in.fail("padding", "\"same\" chooses the padding");
  return w;
}

ConvolutionOptions convolution(ObjectReader& in) {
  ConvolutionOptions o;
  o.window = window(in, false);
  o.out = in.integer("out", kLayerKindsSize);
  o.groups = in.integer("groups", kLayerKindsSize, 1);
  o.bias = in.boolean("bias", false);
  return o;
}

template <std::size_t kSides>
void add_convolution(ImageBuilder& net, const std::string& name, ObjectReader& in, const std::vector<int>& from) {
  if (net.shape(from[0]).size() != kSides + 2) in.fail("op", "the image has another number of sides");
  net.convolution(name, convolution(in));
}

void add_gated(ImageBuilder& net, const std::string& name, ObjectReader& in, const std::vector<int>&) {
  net.gated_convolution(name, convolution(in));
}

void add_transposed(ImageBuilder& net, const std::string& name, ObjectReader& in, const std::vector<int>&) {
  ConvolutionOptions o = convolution(in);
  o.transposed = true;
  net.convolution(name, o);
}

void add_depthwise(ImageBuilder& net, const std::string& name, ObjectReader& in, const std::vector<int>& from) {
  ConvolutionOptions o;
  o.window = window(in, false);
  o.groups = net.channels(from[0]);
  o.out = o.groups * in.integer("multiplier", kLayerKindsSize, 1);
  o.bias = in.boolean("bias", false);
  net.convolution(name, o);
}

void add_max_pool(ImageBuilder& net, const std::string& name, ObjectReader& in, const std::vector<int>&) {
  net.pool(name, window(in, true));
}
void add_average_pool(ImageBuilder& net, const std::string& name, ObjectReader& in, const std::vector<int>&) {
  net.pool(name, window(in, true), true);
}
void add_global_pool(ImageBuilder& net, const std::string& name, ObjectReader&, const std::vector<int>&) {
  net.global_pool(name);
}
void add_batch_norm(ImageBuilder& net, const std::string& name, ObjectReader& in, const std::vector<int>&) {
  net.batch_norm(name, in.number("eps", {0.0, 1.0}, 1e-5));
}
void add_relu(ImageBuilder& net, const std::string& name, ObjectReader&, const std::vector<int>&) { net.relu(name); }
void add_leaky_relu(ImageBuilder& net, const std::string& name, ObjectReader& in, const std::vector<int>&) {
  net.leaky_relu(name, in.number("slope", {0.0, 1.0}, 0.2));
}
void add_tanh(ImageBuilder& net, const std::string& name, ObjectReader&, const std::vector<int>&) { net.tanh(name); }
void add_judgement(ImageBuilder& net, const std::string& name, ObjectReader& in, const std::vector<int>&) {
  const std::vector<std::string> forms{"logistic", "hinge"};
  net.judge(name, in.choice("form", forms, "logistic") == "hinge");
}
void add_dropout(ImageBuilder& net, const std::string& name, ObjectReader& in, const std::vector<int>&) {
  net.dropout(name, in.number("p", {0.0, 0.99}, 0.5));
}
void add_upsample(ImageBuilder& net, const std::string& name, ObjectReader& in, const std::vector<int>&) {
  const std::vector<std::string> modes{"nearest", "bilinear"};
  net.upsample(name, in.integer("scale", {1, 64}, 2), in.choice("mode", modes, "nearest") == "bilinear");
}
void add_linear(ImageBuilder& net, const std::string& name, ObjectReader& in, const std::vector<int>&) {
  net.linear(name, in.integer("out", kLayerKindsSize, net.classes()), in.boolean("bias", true));
}
void add_sum(ImageBuilder& net, const std::string& name, ObjectReader& in, const std::vector<int>& from) {
  if (from.size() != 2) in.fail("from", "add takes the names of two layers");
  net.add(name, from[0], from[1]);
}
void add_concat(ImageBuilder& net, const std::string& name, ObjectReader& in, const std::vector<int>& from) {
  if (from.size() < 2) in.fail("from", "concat takes the names of two layers or more");
  net.concat(name, from);
}
void add_loss(ImageBuilder& net, const std::string& name, ObjectReader&, const std::vector<int>& from) {
  if (net.shape(from[0])[1].tag == DimTag::channels)
    net.segment(name);
  else
    net.classify(name);
}

const std::vector<ParameterHelp> kWindow{{"kernel", "length of the window, or one per side", "required"},
                                         {"stride", "elements between windows", "1"},
                                         {"padding", "zeros before and behind the image", "0"},
                                         {"dilation", "elements between those of one window", "1"},
                                         {"same", "pad so that a side of n becomes ceil(n / stride)", "false"}};
const std::vector<ParameterHelp> kPool{{"kernel", "length of the window, or one per side", "required"},
                                       {"stride", "elements between windows", "kernel"},
                                       {"padding", "elements left out before and behind the image", "0"},
                                       {"same", "pad so that a side of n becomes ceil(n / stride)", "false"},
                                       {"ceil", "a last, incomplete window counts", "false"}};

std::vector<ParameterHelp> with(std::vector<ParameterHelp> own, const std::vector<ParameterHelp>& rest) {
  own.insert(own.end(), rest.begin(), rest.end());
  return own;
}

Registry<LayerKind> make() {
  Registry<LayerKind> r("layer");
  const auto conv = with({{"out", "output channels", "required"},
                          {"groups", "groups of channels that do not mix", "1"},
                          {"bias", "adds a number per channel", "false"}},
                         kWindow);
  const std::vector<ParameterHelp> two{{"from", "names of the layers", "required"}};
  r.add({"conv2d", "convolution of images", conv, {add_convolution<2>}});
  r.add({"conv3d", "convolution of volumes", conv, {add_convolution<3>}});
  r.add({"gated_conv", "two convolutions: leaky_relu(features) * sigmoid(gates) (Yu et al. 2019)", conv, {add_gated}});
  r.add(
      {"depthwise_conv",
       "a window of its own for every channel",
       with({{"multiplier", "output channels per input channel", "1"}, {"bias", "adds a number per channel", "false"}},
            kWindow),
       {add_depthwise}});
  r.add({"transposed_conv", "spreads each element over a window: a learned upsampling", conv, {add_transposed}});
  r.add({"max_pool", "maximum over a window", kPool, {add_max_pool}});
  r.add({"average_pool", "mean over a window", kPool, {add_average_pool}});
  r.add({"global_pool", "mean over all pixels: features", {}, {add_global_pool}});
  r.add({"batch_norm",
         "mean 0, variance 1 per channel over batch and pixels; training.statistics says over which ranks",
         {{"eps", "added to the variance", "1e-5"}},
         {add_batch_norm}});
  r.add({"relu", "larger of x and 0", {}, {add_relu, true}});
  r.add({"leaky_relu", "x above 0, slope * x below", {{"slope", "below 0", "0.2"}}, {add_leaky_relu}});
  r.add({"tanh", "hyperbolic tangent: pixels between -1 and 1", {}, {add_tanh, true}});
  r.add({"adversarial_loss",
         "scores of a discriminator: loss of taking samples for real or for made",
         {{"form", "logistic or hinge", "logistic"}},
         {add_judgement}});
  r.add({"dropout", "zeroes a random fraction", {{"p", "fraction", "0.5"}}, {add_dropout}});
  r.add({"upsample",
         "longer sides",
         {{"scale", "by this factor", "2"}, {"mode", "nearest or bilinear", "nearest"}},
         {add_upsample}});
  r.add({"linear",
         "every element of a sample to features",
         {{"out", "features", "classes"}, {"bias", "adds a number per feature", "true"}},
         {add_linear}});
  r.add({"add", "sum of two layers", two, {add_sum}});
  r.add({"concat", "channels of several layers one after the other", two, {add_concat}});
  r.add({"softmax_loss", "cross entropy per sample, or per pixel of an image", {}, {add_loss}});
  return r;
}

}  // namespace

Registry<LayerKind>& layer_kinds() {
  static Registry<LayerKind> registry = make();
  return registry;
}

}  // namespace rehearse
