#include "core/model/images/image_builder.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"

namespace rehearse {
namespace {

constexpr std::size_t kFirstSide = 2;  // batch, channels
constexpr DimTag kSides[] = {DimTag::depth, DimTag::height, DimTag::width};

/// A vector of features is [batch, 1, features], as a token's is.
Shape features(std::int64_t n) { return {{DimTag::batch, 0}, {DimTag::fixed, 1}, {DimTag::fixed, n}}; }

Shape image(std::int64_t channels, const std::vector<std::int64_t>& sides) {
  Shape out{{DimTag::batch, 0}, {DimTag::channels, channels}};
  const std::size_t first = std::size(kSides) - sides.size();
  for (std::size_t i = 0; i < sides.size(); ++i) out.push_back({kSides[first + i], sides[i]});
  return out;
}

bool is_image(const Shape& shape) { return shape.size() > 1 && shape[1].tag == DimTag::channels; }

std::int64_t product(const Shape& shape, std::size_t from) {
  std::int64_t n = 1;
  for (std::size_t i = from; i < shape.size(); ++i) n *= shape[i].size;
  return n;
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

constexpr double kVggProductStd = 0.01;

}  // namespace

ImageBuilder::ImageBuilder(std::string name, ImageInput input, std::int64_t classes)
    : input_(std::move(input)), classes_(classes) {
  network_.name = std::move(name);
  network_.sequences = false;
}

void ImageBuilder::fail(const std::string& layer, const std::string& what) const {
  throw Error(ErrorKind::usage, what, fmt::format("{}: {}/{}", network_.name, block_.name, layer));
}

int ImageBuilder::tensor(TensorSpec spec) {
  block_.tensors.push_back(std::move(spec));
  return static_cast<int>(block_.tensors.size()) - 1;
}

int ImageBuilder::param(ParamSpec spec) {
  block_.params.push_back(std::move(spec));
  return static_cast<int>(block_.params.size()) - 1;
}

std::vector<int> ImageBuilder::weights(const std::string& name, const Shape& weight, std::int64_t out, bool bias) {
  // PyTorch's fans: inputs are dimension 1 and the window, outputs dimension 0 and the window.
  const std::int64_t inputs = std::max<std::int64_t>(1, product(weight, 1));
  const std::int64_t outputs = std::max<std::int64_t>(1, weight[0].size * product(weight, 2));
  const bool convolution = weight.size() > 2;
  ParamSpec w{.name = name + ".weight", .shape = weight}, b{.name = name + ".bias", .shape = {{DimTag::fixed, out}}};
  const bool normal = convolution ? weights_ != ImageWeights::module
                                  : weights_ == ImageWeights::vgg || weights_ == ImageWeights::inception;
  if (normal)
    w.init_std = weights_ == ImageWeights::inception ? inception_std_
                 : convolution                       ? std::sqrt(2.0 / static_cast<double>(outputs))
                                                     : kVggProductStd;
  else
    w.init_bound = 1 / std::sqrt(static_cast<double>(inputs));
  if (!normal || weights_ == ImageWeights::inception) b.init_bound = 1 / std::sqrt(static_cast<double>(inputs));
  std::vector<int> params{param(std::move(w))};
  if (bias) params.push_back(param(std::move(b)));
  return params;
}

int ImageBuilder::made(OpKind kind, const std::string& name, std::vector<int> inputs, Shape shape,
                       std::vector<int> params) {
  const int y = tensor({.name = name, .shape = std::move(shape)});
  block_.ops.push_back(
      {.kind = kind, .name = name, .inputs = std::move(inputs), .outputs = {y}, .params = std::move(params)});
  return last_ = y;
}

void ImageBuilder::close(bool last) {
  if (block_.name.empty()) return;
  block_.output = last ? -1 : last_;
  network_.blocks.push_back(std::move(block_));
  network_.repeat.push_back(times_);
  block_ = {};
}

void ImageBuilder::begin(const std::string& block, int times) {
  const bool first = block_.name.empty();
  const Shape before = first ? Shape{} : shape(last_);
  close(false);
  block_.name = block;
  times_ = times;
  if (std::exchange(discriminator_begins_, false)) network_.discriminator = static_cast<int>(network_.blocks.size());
  if (first) {
    last_ = tensor({.name = input_.noise ? "noise" : "image",
                    .shape = input_.sides.empty() ? features(input_.channels) : image(input_.channels, input_.sides),
                    .loaded = true,
                    .field = input_.noise ? SampleField::noise : SampleField::image});
  } else {
    last_ = block_.input = tensor({.name = "input", .shape = before});
  }
}

std::int64_t ImageBuilder::channels(int t) const {
  return is_image(shape(t)) ? shape(t)[1].size : shape(t).back().size;
}

std::vector<std::int64_t> ImageBuilder::sides(const std::string& layer, int t) const {
  if (!is_image(shape(t)))
    fail(layer, fmt::format("'{}' has no sides: this layer takes images", nth(block_.tensors, t).name));
  std::vector<std::int64_t> out;
  for (std::size_t i = kFirstSide; i < shape(t).size(); ++i) out.push_back(shape(t)[i].size);
  return out;
}

Shape ImageBuilder::with_sides(int t, std::int64_t channels, const std::vector<std::int64_t>& sides) const {
  Shape out = shape(t);
  out[1].size = channels;
  for (std::size_t i = 0; i < sides.size(); ++i) out[kFirstSide + i].size = sides[i];
  return out;
}

ImageBuilder::Fitted ImageBuilder::fit(const std::string& layer, const WindowOptions& o, bool transposed) const {
  Fitted out;
  const auto from = sides(layer, last_);
  const auto value = [&](const std::vector<std::int64_t>& list, std::size_t i) {
    if (list.size() != 1 && list.size() != from.size())
      fail(layer, fmt::format("{} values for {} sides", list.size(), from.size()));
    return list.size() == 1 ? list[0] : list[i];
  };
  for (std::size_t i = 0; i < from.size(); ++i) {
    WindowDim w{value(o.kernel, i), value(o.stride, i), value(o.padding, i), value(o.dilation, i)};
    const std::int64_t reach = w.dilation * (w.kernel - 1) + 1, n = from[i];
    std::int64_t side = 0;
    if (transposed) {
      side = o.same ? n * w.stride : (n - 1) * w.stride - 2 * w.padding + reach;
      if (o.same) w.padding = std::max<std::int64_t>(0, (n - 1) * w.stride + reach - side) / 2;
    } else if (o.same) {
      side = ceil_div(n, w.stride);
      w.padding = std::max<std::int64_t>(0, (side - 1) * w.stride + reach - n) / 2;
    } else {
      const std::int64_t room = n + 2 * w.padding - reach;
      if (room >= 0) side = (o.ceil ? ceil_div(room, w.stride) : room / w.stride) + 1;
    }
    if (side < 1)
      fail(layer, fmt::format("a window of {} does not fit a side of {} with padding {}", reach, n, w.padding));
    out.window.push_back(w);
    out.sides.push_back(side);
  }
  return out;
}

int ImageBuilder::convolution(const std::string& name, const ConvolutionOptions& o) {
  const Fitted f = fit(name, o.window, o.transposed);
  const std::int64_t in = channels(last_);
  if (o.out < 1 || o.groups < 1 || in % o.groups != 0 || o.out % o.groups != 0)
    fail(name, fmt::format("{} groups do not divide {} input and {} output channels", o.groups, in, o.out));
  Shape weight{{DimTag::fixed, o.transposed ? in : o.out}, {DimTag::fixed, (o.transposed ? o.out : in) / o.groups}};
  for (const WindowDim& w : f.window) weight.push_back({DimTag::fixed, w.kernel});
  std::vector<int> params = weights(name, weight, o.out, o.bias);
  const int x = last_;
  made(OpKind::convolution, name, {x}, with_sides(x, o.out, f.sides), std::move(params));
  last_op().window = f.window;
  last_op().groups = o.groups;
  last_op().transposed = o.transposed;
  return last_;
}

int ImageBuilder::pool(const std::string& name, const WindowOptions& window, bool average) {
  const Fitted f = fit(name, window, false);
  const int x = last_;
  made(OpKind::pool, name, {x}, with_sides(x, channels(x), f.sides));
  last_op().window = f.window;
  last_op().average = average;
  return last_;
}

int ImageBuilder::global_pool(const std::string& name) {
  (void)sides(name, last_);
  return made(OpKind::global_pool, name, {last_}, features(channels(last_)));
}

int ImageBuilder::batch_norm(const std::string& name, double eps) {
  (void)sides(name, last_);
  const Shape c{{DimTag::fixed, channels(last_)}};
  const int weight = param({.name = name + ".weight", .shape = c, .init_one = true}),
            bias = param({.name = name + ".bias", .shape = c});
  made(OpKind::batch_norm, name, {last_}, shape(last_), {weight, bias});
  last_op().eps = eps;
  return last_;
}

int ImageBuilder::unary(OpKind kind, const std::string& name) { return made(kind, name, {last_}, shape(last_)); }
int ImageBuilder::relu(const std::string& name) { return unary(OpKind::relu, name); }

int ImageBuilder::leaky_relu(const std::string& name, double slope) {
  made(OpKind::leaky_relu, name, {last_}, shape(last_));
  last_op().slope = slope;
  return last_;
}

int ImageBuilder::tanh(const std::string& name) { return unary(OpKind::tanh, name); }

int ImageBuilder::gated_convolution(const std::string& name, const ConvolutionOptions& options) {
  const int x = last_;
  const int features = convolution(name + ".features", options);
  last_ = x;
  const int gates = convolution(name + ".gates", options);
  return made(OpKind::gate, name, {features, gates}, shape(features));
}

int ImageBuilder::dropout(const std::string& name, double p) {
  if (p == 0.0) return last_;
  made(OpKind::dropout, name, {last_}, shape(last_));
  last_op().p = p;
  return last_;
}

int ImageBuilder::upsample(const std::string& name, std::int64_t scale, bool interpolated) {
  auto longer = sides(name, last_);
  for (auto& n : longer) n *= scale;
  made(OpKind::upsample, name, {last_}, with_sides(last_, channels(last_), longer));
  last_op().scale = scale;
  last_op().interpolated = interpolated;
  // Each element is spread over those it becomes; between two of them, where pixels are interpolated.
  last_op().window.assign(longer.size(),
                          interpolated ? WindowDim{2 * scale, scale, scale / 2, 1} : WindowDim{scale, scale, 0, 1});
  last_op().transposed = true;
  return last_;
}

int ImageBuilder::linear(const std::string& name, std::int64_t out, bool bias) {
  const int x = last_;
  const std::int64_t in = is_image(shape(x)) ? product(shape(x), 1) : shape(x).back().size;
  std::vector<int> params = weights(name, {{DimTag::fixed, out}, {DimTag::fixed, in}}, out, bias);
  return made(OpKind::linear, name, {x}, features(out), std::move(params));
}

int ImageBuilder::add(const std::string& name, int a, int b) { return made(OpKind::add, name, {a, b}, shape(a)); }

int ImageBuilder::concat(const std::string& name, const std::vector<int>& parts) {
  Shape joined = shape(parts.at(0));
  joined[1].size = 0;
  for (const int p : parts) joined[1].size += channels(p);
  return made(OpKind::concat, name, parts, std::move(joined));
}

int ImageBuilder::classify(const std::string& name) {
  const int logits = last_;
  if (is_image(shape(logits)))
    fail(name, "classes are told from features: put global_pool or linear before it, or take segment");
  const int labels = tensor({.name = name + ".labels",
                             .shape = {{DimTag::batch, 0}, {DimTag::fixed, 1}},
                             .integer = true,
                             .field = SampleField::labels});
  const int y = made(OpKind::cross_entropy, name, {logits, labels}, {{DimTag::fixed, 1}});
  block_.tensors.back().fp32 = true;
  last_ = logits;
  return y;
}

int ImageBuilder::segment(const std::string& name) {
  const int logits = last_;
  (void)sides(name, logits);
  Shape labels = shape(logits);
  labels.erase(labels.begin() + 1);
  const int truth =
      tensor({.name = name + ".labels", .shape = std::move(labels), .integer = true, .field = SampleField::labels});
  const int y = made(OpKind::pixel_loss, name, {logits, truth}, {{DimTag::fixed, 1}});
  block_.tensors.back().fp32 = true;
  last_ = logits;
  return y;
}

int ImageBuilder::judge(const std::string& name, bool hinge) {
  const int scores = last_;
  const int y = made(OpKind::adversarial_loss, name, {scores}, {{DimTag::fixed, 1}});
  block_.tensors.back().fp32 = true;
  last_op().hinge = hinge;
  last_ = scores;
  return y;
}

int ImageBuilder::find(const std::string& name) {
  for (std::size_t t = 0; t < block_.tensors.size(); ++t)
    if (block_.tensors[t].name == name || block_.tensors[t].from == name) return static_cast<int>(t);
  for (std::size_t b = 0; b < network_.blocks.size(); ++b) {
    const BlockSpec& block = network_.blocks[b];
    for (std::size_t t = 0; t < block.tensors.size(); ++t) {
      const TensorSpec& there = block.tensors[t];
      if (block.name + "." + there.name != name || there.is_input() || !there.from.empty()) continue;
      // What the block before hands on is the input already.
      if (b + 1 == network_.blocks.size() && static_cast<int>(t) == block.output) return block_.input;
      return tensor({.name = name, .shape = there.shape, .from = name});
    }
  }
  return -1;
}

Network ImageBuilder::finish() && {
  close(true);
  return std::move(network_);
}

}  // namespace rehearse
