#pragma once
// Launchers of kernels over images [batch, channels, sides...], as kernels.hpp has them. Images of tiles are stored
// with their halos.

#include "gpu_backend/cuda/kernels/kernels.hpp"

namespace rehearse::cuda {

/// The elements of a tensor that are a rank's own, numbered row-major; a halo may be stored around them.
struct Own {
  static constexpr int kMaxRank = 5;
  int rank = 0;
  std::int64_t extents[kMaxRank] = {};  ///< Stored.
  std::int64_t first[kMaxRank] = {};    ///< Stored coordinate of own coordinate 0.
  std::int64_t length[kMaxRank] = {};   ///< Own.
  bool whole = true;                    ///< No halo: places are numbers.
  /// Place in storage of own element i.
  [[nodiscard]] constexpr std::int64_t place(std::int64_t i) const {
    if (whole) return i;
    std::int64_t out = 0, stride = 1;
    for (int d = rank - 1; d >= 0; --d) {
      out += (first[d] + i % length[d]) * stride;
      i /= length[d];
      stride *= extents[d];
    }
    return out;
  }
  /// Own elements from dimension `d` on.
  [[nodiscard]] constexpr std::int64_t from(int d) const {
    std::int64_t n = 1;
    for (; d < rank; ++d) n *= length[d];
    return n;
  }
};

/// A tensor of which the own elements are worked on.
struct Elements {
  Reals data;
  Own own;
};

// ---- element by element

/// y = x, or slope * x below 0; the mask, where it is given, holds whether x > 0.
void relu(cudaStream_t, const Elements& x, const Elements& mask, const Elements& y, double slope);
/// `kept`: y or the mask.
void relu_grad(cudaStream_t, const Elements& dy, const Elements& kept, const Elements& dx, double slope);
void tanh_of(cudaStream_t, const Elements& x, const Elements& y);
void tanh_grad(cudaStream_t, const Elements& dy, const Elements& x, const Elements& dx);
/// y = dropout(x) (+ residual, where its data is given); writes the mask.
void dropout_own(cudaStream_t, const Elements& x, const Elements& residual, const Elements& mask, const Elements& y,
                 const GlobalElements& elements, const Dropout& random);
void dropout_own_grad(cudaStream_t, const Elements& dy, const Elements& mask, const Elements& dx, double scale);
/// Leaky ReLU of the features times the sigmoid of the gates.
void gate(cudaStream_t, const Elements& features, const Elements& gates, const Elements& y);
void gate_grad(cudaStream_t, const Elements& dy, const Elements& features, const Elements& gates,
               const Elements& dfeatures, const Elements& dgates);
void add_own(cudaStream_t, const Elements& a, const Elements& b, const Elements& sum);
/// Adds a number per channel.
void add_bias(cudaStream_t, Reals bias, const Elements& image);
/// Between an image without the halo that another has room for.
void copy_own(cudaStream_t, const Elements& from, const Elements& to);
/// Copies a part's channels to those of `whole` from `first` on, or back.
void join_channels(cudaStream_t, const Elements& part, const Elements& whole, std::int64_t first);
void split_channels(cudaStream_t, const Elements& whole, const Elements& part, std::int64_t first);

// ---- per channel; `scratch` holds channel_scratch_bytes()

[[nodiscard]] std::size_t channel_scratch_bytes(const Own& image, ElementType type);
/// Adds the sum over pixels to `sum`.
void channel_sum(cudaStream_t, const Elements& dy, Reals sum, void* scratch);
/// A channel's mean over `pixels` pixels, of which these are a part, [batch, channels].
void global_pool(cudaStream_t, const Elements& x, Reals y, std::int64_t pixels, void* scratch);
void global_pool_grad(cudaStream_t, Reals dy, const Elements& dx, std::int64_t pixels);

/// `count` elements per channel go into the statistics; sums [2 channels]: of x, and of x^2.
struct BatchNorm {
  std::int64_t count;
  double epsilon;
};
void batch_norm_sums(cudaStream_t, const Elements& x, Reals sums, void* scratch);
void batch_norm(cudaStream_t, const Elements& x, Reals sums, Reals weight, Reals bias, const Elements& y,
                const BatchNorm& shape, void* scratch);
/// gradient sums [2 channels]: of dy, and of dy times x as normalised; also added to the gradients of bias and weight.
void batch_norm_grad_sums(cudaStream_t, const Elements& x, const Elements& dy, Reals sums, Reals gradient_sums,
                          Reals dweight, Reals dbias, const BatchNorm& shape, void* scratch);
void batch_norm_grad(cudaStream_t, const Elements& x, const Elements& dy, Reals sums, Reals gradient_sums, Reals weight,
                     const Elements& dx, const BatchNorm& shape, void* scratch);

// ---- windows

/// Three sides; those an image lacks are of length 1.
struct ImageSides {
  std::int64_t length[3] = {1, 1, 1};  ///< Stored.
  std::int64_t first[3] = {0, 0, 0};   ///< Global index of stored element 0.
  std::int64_t global[3] = {1, 1, 1};  ///< Of the whole image.
  [[nodiscard]] constexpr std::int64_t pixels() const { return length[0] * length[1] * length[2]; }
};
/// Element o of the small image reads element o * stride - padding + k * dilation of the large one.
struct WindowShape {
  std::int64_t kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, padding[3] = {0, 0, 0}, dilation[3] = {1, 1, 1};
  [[nodiscard]] constexpr std::int64_t elements() const { return kernel[0] * kernel[1] * kernel[2]; }
};
struct Joined {
  ImageSides small, large;
  WindowShape window;
};

/// Some channels of some samples of the large image, as columns: element (sample, channel, window element, small pixel)
/// lies at sample * sample_stride + (channel * window elements + window element) * row_stride + pixel.
/// `channels_stored` lie between two samples.
struct Columns {
  std::int64_t samples, channels, channels_stored, row_stride, sample_stride;
};
/// What lies outside the image is zero.
void image_to_columns(cudaStream_t, Reals large, Reals columns, const Joined& shape, const Columns& layout);
/// Every element of the large image becomes the sum of the columns' elements that stand for it.
void columns_to_image(cudaStream_t, Reals columns, Reals large, const Joined& shape, const Columns& layout);

/// `planes` images of one channel. A maximum's position is the pixel's number in the whole image.
void max_pool(cudaStream_t, Reals x, const Elements& positions, const Elements& y, const Joined& shape);
void max_pool_grad(cudaStream_t, Reals dy, const std::int64_t* positions, Reals dx, const Joined& shape,
                   std::int64_t planes);
void average_pool(cudaStream_t, Reals x, const Elements& y, const Joined& shape);
void average_pool_grad(cudaStream_t, Reals dy, Reals dx, const Joined& shape, std::int64_t planes);
/// Pixels of the longer image from those of the shorter; backward sums up.
void upsample(cudaStream_t, Reals x, Reals y, const ImageSides& shorter, const ImageSides& longer, std::int64_t planes,
              bool bilinear);
void upsample_grad(cudaStream_t, Reals dy, Reals dx, const ImageSides& shorter, const ImageSides& longer,
                   std::int64_t planes, bool bilinear);

// ---- losses of pixels; logits [batch, classes, sides...], labels [batch, sides...]

[[nodiscard]] std::size_t pixel_loss_scratch_bytes(const Own& labels, ElementType type);
/// Mean to `loss`, sum to `total`.
void pixel_loss(cudaStream_t, const Elements& logits, const std::int64_t* labels, const Own& labels_own, Reals loss,
                double* total, void* scratch);
/// Gradient of the mean over `pixels`.
void pixel_loss_grad(cudaStream_t, const Elements& logits, const std::int64_t* labels, const Own& labels_own,
                     const Elements& dx, double pixels);

// ---- the loss of scores, cpu/ops/adversarial.cpp

/// Scores times `sign` are to be large; form 0: log(1 + exp(-z)), 1: max(0, 1 - z), 2: -z.
struct ScoreForm {
  double sign;
  int form;
};
/// Mean to `loss`, sum to `total`.
void score_loss(cudaStream_t, Reals scores, std::int64_t n, const ScoreForm& form, Reals loss, double* total);
/// Gradient of the mean over `over` scores.
void score_loss_grad(cudaStream_t, Reals scores, Reals out, std::int64_t n, const ScoreForm& form, double over);

}  // namespace rehearse::cuda
