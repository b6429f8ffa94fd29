#pragma once
// Samples that a file of safetensors gives, in their order: what another program trained on, or will.
//
//   tokens       [n, s + 1], or [n, s] where there are labels; whole numbers
//   labels       [n, s]: what is to be predicted at each token; of images [n], or [n, height, width] for each pixel
//   token_types  [n, s]: which sentence a token belongs to
//   image        [n, ...]: the numbers of a sample, as the network's input has them

#include <cstdint>
#include <memory>
#include <string>

#include "gpu_backend/train/data.hpp"

namespace rehearse {

/// What a network makes of a sample.
struct SampleKind {
  std::int64_t per_step = 1;    ///< Samples of a step: step i begins with sample i * per_step, counted modulo n.
  std::int64_t vocabulary = 0;  ///< Of tokens; 0 for images.
  std::int64_t numbers = 0;     ///< Of an image.
  std::int64_t classes = 0;     ///< That labels tell apart.
};

/// Throws Error (usage) with file and tensor: fields that are missing, of other lengths or shapes, or a number that is
/// no token or class of the network.
[[nodiscard]] std::unique_ptr<DataSource> given_samples(const std::string& path, const SampleKind& kind);

}  // namespace rehearse
