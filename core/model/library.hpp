#pragma once
// The models shipped as files: NAME/config.json under one directory.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/network.hpp"

namespace rehearse {

/// What a scenario says of a model beside its configuration.
struct ModelReading {
  std::int64_t image_height = 0, image_width = 0;  ///< 0 keeps the model's own.
  /// Whether q, k and v are one product, gate and up another, where the configuration doesn't say.
  bool merged_projections = true;
};

class ModelLibrary {
 public:
  /// `directory` need not exist: the library is then empty, and models are given by path or text.
  explicit ModelLibrary(std::filesystem::path directory);

  /// Sorted names of the subdirectories that hold a config.json.
  [[nodiscard]] std::vector<std::string> names() const;

  /// The configuration file that `model` means: a registered name, or a path to a file or to a directory with a
  /// config.json. A relative path is taken from `base` (the scenario's directory); a word with neither '/' nor ".json"
  /// is a name. Throws Error (usage): an unknown name (with a suggestion and the valid names), a path where no file is.
  [[nodiscard]] std::filesystem::path find(std::string_view model, const std::filesystem::path& base = {}) const;

  /// The network of `model`, which find() takes, or which is itself the text of a configuration (it starts with '{').
  /// It is named by its registered name or directory. Throws as find() and build_network() do, and where sides of
  /// images are given for a model of sequences or vectors.
  [[nodiscard]] Network load(std::string_view model, const std::filesystem::path& base = {},
                             const ModelReading& reading = {}) const;

 private:
  std::filesystem::path directory_;
};

}  // namespace rehearse
