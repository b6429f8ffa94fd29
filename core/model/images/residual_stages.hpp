#pragma once
// The stages of residual networks, which classifiers and segmentation networks share.

#include <vector>

#include "core/config/object_reader.hpp"
#include "core/model/images/image_builder.hpp"

namespace rehearse {

/// Keys as in Hugging Face's `resnet` configurations.
struct ResidualConfig {
  ImageInput input{3, {224, 224}};
  std::int64_t classes = 1000;                             ///< num_labels
  std::int64_t stem = 64;                                  ///< embedding_size: channels of the 7 x 7 convolution.
  std::vector<std::int64_t> widths{256, 512, 1024, 2048};  ///< hidden_sizes: channels that each stage hands on.
  std::vector<std::int64_t> depths{3, 4, 6, 3};            ///< Blocks per stage.
  /// layer_type "bottleneck": 1 x 1, 3 x 3, 1 x 1; "basic": 3 x 3 twice.
  bool bottleneck = true;
  /// downsample_in_bottleneck: stride in the first 1 x 1 (He et al. 2015, "v1") instead
  /// of the 3 x 3 ("v1.5").
  bool stride_first = false;
  /// Smallest side over the image's; later stages dilate instead of striding.
  std::int64_t output_stride = 32;
  /// Channels of "stage2_first.low_level.relu", a 1 x 1 branch off the first stage that
  /// a decoder takes up; 0: none.
  std::int64_t low_level = 0;
};

/// Reads and checks the keys. Throws Error (usage) with file and JSON path.
[[nodiscard]] ResidualConfig read_residual(ObjectReader& in);

/// Input sides of an image model: image_height and image_width, else image_size for both.
[[nodiscard]] std::vector<std::int64_t> read_image_sides(ObjectReader& in, std::int64_t fallback);

/// Adds blocks "stem", "stage1_first", "stage1", ...: after it the builder's last tensor is the last stage's.
void add_residual_stages(ImageBuilder& net, const ResidualConfig& config);

/// convolution, batch norm and, where wanted, relu: NAME, NAME.norm, NAME.relu.
int conv_norm(ImageBuilder& net, const std::string& name, const ConvolutionOptions& options, bool relu = true);

}  // namespace rehearse
