#pragma once
// Builds networks over images, volumes or plain vectors op by op, with shapes worked out. Used by the layer-list reader
// and by the architectures that are too regular to be written out as lists.
//
//   ImageBuilder net("tiny", {3, {32, 32}}, 10);
//   net.begin("stem");
//   net.convolution("conv", {.out = 16, .kernel = {3}, .same = true});
//   net.relu("relu");
//   net.begin("head");
//   net.global_pool("pool");
//   net.classify("loss");
//   Network network = std::move(net).finish();
//
// Methods act on the tensor made last and leave theirs as the last one; at() and use() choose another. Errors are Error
// (usage) that name block and layer.

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/index.hpp"
#include "core/model/network.hpp"

namespace rehearse {

/// What a sample is: `channels` and one to three sides (height and width, or depth, height and width), or `channels`
/// features and no sides.
struct ImageInput {
  std::int64_t channels = 3;
  std::vector<std::int64_t> sides;
  bool noise = false;  ///< Drawn at random instead of read: what a generator begins with.
};

/// Lists of one element hold for every side.
struct WindowOptions {
  std::vector<std::int64_t> kernel{1}, stride{1}, padding{0}, dilation{1};
  /// Zeros around the image so that a side of n becomes ceil(n / stride); an odd one goes behind.
  bool same = false;
  bool ceil = false;  ///< Pools: a last, incomplete window counts.
};

struct ConvolutionOptions {
  std::int64_t out = 0;
  WindowOptions window{};
  std::int64_t groups = 1;
  bool bias = false;
  bool transposed = false;  ///< A side of n becomes (n - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1.
};

/// What weights of convolutions begin with (torchvision 0.14.1, torchvision/models/resnet.py, vgg.py and inception.py;
/// PyTorch 1.13.1, torch/nn/modules/conv.py and linear.py, reset_parameters). Products begin as torch.nn.Linear does
/// under the first two: uniform, to one over the root of the inputs of a sum, biases too.
enum class ImageWeights : std::uint8_t {
  module,    ///< As torch.nn.Conv2d: uniform, to one over the root of the inputs of a sum, biases too.
  he,        ///< Normal, variance 2 over the outputs that an input is part of, without biases: torchvision's ResNets
             ///< (He et al. 2015, sec. 2.2).
  vgg,       ///< The same, and products normal with a deviation of 0.01: torchvision's VGG.
  inception  ///< Normal with a deviation of 0.1, biases as modules: torchvision's Inception.
};

class ImageBuilder {
 public:
  ImageBuilder(std::string name, ImageInput input, std::int64_t classes);

  /// Starts a block, `times` in a row, that takes the last tensor of the block before; the first takes the image.
  void begin(const std::string& block, int times = 1);
  /// What begins from here on is the discriminator, which is shown what the block before hands on, and images of the
  /// data like it.
  void begin_discriminator() { discriminator_begins_ = true; }

  /// How parameters that are made from here on begin. Of `inception`, `std` is the deviation.
  void begin_weights(ImageWeights kind, double std = 0.1) {
    weights_ = kind;
    inception_std_ = std;
  }

  // Each returns the index of the tensor it makes.
  int convolution(const std::string& name, const ConvolutionOptions& options);
  int pool(const std::string& name, const WindowOptions& window, bool average = false);
  int global_pool(const std::string& name);
  int batch_norm(const std::string& name, double eps = 1e-5);
  /// An operator of one tensor, whose result is like it: one that a file adds (add_operator).
  int unary(OpKind kind, const std::string& name);
  int relu(const std::string& name);
  int leaky_relu(const std::string& name, double slope);
  int tanh(const std::string& name);
  /// A convolution for features and one for gates, and their product.
  int gated_convolution(const std::string& name, const ConvolutionOptions& options);
  int dropout(const std::string& name, double p);
  int upsample(const std::string& name, std::int64_t scale, bool interpolated);
  /// All channels and pixels of a sample to `out` features.
  int linear(const std::string& name, std::int64_t out, bool bias = true);
  int add(const std::string& name, int a, int b);
  int concat(const std::string& name, const std::vector<int>& parts);
  /// Loss of class scores: a linear to `classes` is the caller's. `labels` may be those of another loss in the block.
  int classify(const std::string& name);
  /// Loss per pixel; the channels are the classes.
  int segment(const std::string& name);
  /// Loss of a discriminator whose scores the last tensor holds: one for a sample, or one for each patch of it.
  int judge(const std::string& name, bool hinge);

  /// The tensor that the next op takes.
  [[nodiscard]] int at() const { return last_; }
  void use(int tensor) { last_ = tensor; }
  /// A tensor of this block by name, or "BLOCK.TENSOR" of an earlier one; -1 when there is none.
  int find(const std::string& name);
  [[nodiscard]] const Shape& shape(int tensor) const { return nth(block_.tensors, tensor).shape; }
  [[nodiscard]] std::int64_t channels(int tensor) const;
  [[nodiscard]] std::int64_t classes() const { return classes_; }

  [[nodiscard]] Network finish() &&;

 private:
  [[noreturn]] void fail(const std::string& layer, const std::string& what) const;
  int tensor(TensorSpec spec);
  int made(OpKind kind, const std::string& name, std::vector<int> inputs, Shape shape, std::vector<int> params = {});
  OpSpec& last_op() { return block_.ops.back(); }
  int param(ParamSpec spec);
  /// A weight of a product or convolution, and its bias.
  std::vector<int> weights(const std::string& name, const Shape& weight, std::int64_t out, bool bias);
  /// Sides of a tensor; throws for features.
  [[nodiscard]] std::vector<std::int64_t> sides(const std::string& layer, int tensor) const;
  [[nodiscard]] Shape with_sides(int tensor, std::int64_t channels, const std::vector<std::int64_t>& sides) const;
  struct Fitted {
    std::vector<WindowDim> window;
    std::vector<std::int64_t> sides;
  };
  [[nodiscard]] Fitted fit(const std::string& layer, const WindowOptions& options, bool transposed) const;
  void close(bool last);

  Network network_;
  ImageInput input_;
  std::int64_t classes_;
  BlockSpec block_;
  int times_ = 1;
  int last_ = -1;
  bool discriminator_begins_ = false;
  ImageWeights weights_ = ImageWeights::module;
  double inception_std_ = 0;
};

}  // namespace rehearse
