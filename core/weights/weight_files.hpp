#pragma once
// The weights of a model, in one file or in several that an index lists, as Hugging Face's repositories keep them.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/weights/safetensors.hpp"

namespace rehearse {

/// `path` is a file of safetensors, an index ("model.safetensors.index.json", whose "weight_map" says which file beside
/// it has which tensor), or a folder that holds "model.safetensors" or its index.
class WeightFiles {
 public:
  /// Reads the headers of all files. Throws Error (usage) as SafetensorsFile does, and where an index names a tensor
  /// that its file lacks.
  explicit WeightFiles(const std::string& path);

  struct Found {
    SafetensorsFile* file;
    const StoredWeights* tensor;
  };
  [[nodiscard]] std::optional<Found> find(std::string_view name);
  /// Of all files, in their order.
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
};

}  // namespace rehearse
