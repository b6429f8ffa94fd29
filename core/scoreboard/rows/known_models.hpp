#pragma once
// The shipped models, by the names that people give them.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/library.hpp"

namespace rehearse {

/// A shipped model, as rows need it.
struct KnownModel {
  std::string name;        ///< In the library.
  std::string model_type;  ///< Of its configuration.
  std::int64_t layers = 0;
  std::int64_t positions = 0;  ///< Longest sequence; 0: unstated.
  /// Positions are turned into queries and keys, or nowhere, so that any number of them has the same weights.
  bool rotary = false;
  bool experts = false;
  bool images = false;            ///< Samples are images.
  std::int64_t dense_layers = 0;  ///< First layers without experts, where the configuration says how many.
};

class KnownModels {
 public:
  /// Reads every configuration of the library, which must outlive it.
  explicit KnownModels(const ModelLibrary& library);
  explicit KnownModels(const ModelLibrary&&) = delete;

  /// The model that `text` names, whatever the case and the marks between words: "Llama-3.1 8B", "LLAMA3.1_8B" and
  /// "meta-llama/Llama-3.1-8B" are all llama3_1_8b. Of several the longest. Null where none is named, or where the text
  /// states another size: "GPT-2 1.5B" is not gpt2.
  [[nodiscard]] const KnownModel* find(std::string_view text) const;

  /// The configuration of `model` with so many layers, `dense_layers` of them without experts where it says how many,
  /// and, where positions have no weights, for sequences of at least `positions` tokens, as text.
  [[nodiscard]] std::string resized(const KnownModel& model, std::int64_t positions, std::int64_t layers,
                                    std::int64_t dense_layers) const;
  /// The configuration of `model`, as text.
  [[nodiscard]] std::string configuration(const KnownModel& model) const;
  /// A shipped model by its name in the library, or a configuration as text.
  [[nodiscard]] Network load(const std::string& model) const { return library_->load(model); }

 private:
  struct Spelling {
    std::string letters;
    std::size_t model;
  };
  const ModelLibrary* library_;
  std::vector<KnownModel> models_;
  std::vector<Spelling> spellings_;  ///< The longest first.
};

}  // namespace rehearse
