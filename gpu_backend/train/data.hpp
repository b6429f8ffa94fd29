#pragma once
// Input: samples by their number, so that any rank reads its own and sharding never changes what is trained on.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/sample_field.hpp"

namespace rehearse {

/// A source has what it overrides; asked for anything else it throws Error (unavailable).
class DataSource {
 public:
  virtual ~DataSource() = default;
  /// `length` + 1 consecutive tokens of sample `sample` of step `step`: inputs are the first `length`, labels the last.
  /// Each is below `vocabulary`.
  virtual void tokens(std::int64_t step, std::int64_t sample, std::int64_t length,
                      std::vector<std::int64_t>& out) const;
  /// What is to be predicted at each of `length` tokens: the next one, unless the source says otherwise.
  virtual void labels(std::int64_t step, std::int64_t sample, std::int64_t length,
                      std::vector<std::int64_t>& out) const;
  /// Which sentence each of `length` tokens belongs to.
  virtual void token_types(std::int64_t step, std::int64_t sample, std::int64_t length,
                           std::vector<std::int64_t>& out) const;
  /// Whether it has a field that not every source of its kind has: types of tokens.
  [[nodiscard]] virtual bool has(SampleField field) const { return field != SampleField::token_types; }
  /// The `n` numbers of sample `sample`: an image's pixels, channel by channel, or a vector's features.
  virtual void image(std::int64_t step, std::int64_t sample, std::int64_t n, std::vector<double>& out) const;
  /// Class of a sample, and of one pixel of it.
  [[nodiscard]] virtual std::int64_t label(std::int64_t step, std::int64_t sample) const;
  [[nodiscard]] virtual std::int64_t pixel_label(std::int64_t step, std::int64_t sample, std::int64_t pixel) const;
  [[nodiscard]] virtual std::string describe() const = 0;
};

/// Sequences that can be learned: three tokens of four follow from the one before, the others are drawn.
[[nodiscard]] std::unique_ptr<DataSource> synthetic_tokens(std::uint64_t seed, std::int64_t vocabulary);

/// Images that can be learned: noise around a pattern of their class. A pixel's class tells how bright it is.
[[nodiscard]] std::unique_ptr<DataSource> synthetic_images(std::uint64_t seed, std::int64_t classes);

/// Images from a file of records, each a byte for the class and `pixels` bytes, as CIFAR-10's binary files are; which
/// one, (seed, step, sample) decides. Throws Error (usage) where the file is no whole number of records, or a class is
/// not below `classes`.
[[nodiscard]] std::unique_ptr<DataSource> images_of_file(const std::string& path, std::uint64_t seed,
                                                         std::int64_t classes, std::int64_t pixels);

/// The bytes of a file, from a place that (seed, step, sample) decides. Throws Error (usage) where the file is shorter
/// than a sample, or the vocabulary has fewer than 256 tokens.
[[nodiscard]] std::unique_ptr<DataSource> bytes_of_file(const std::string& path, std::uint64_t seed,
                                                        std::int64_t vocabulary);

/// Entropy of single bytes in nats: the loss of a model that knows only how often each byte occurs.
[[nodiscard]] double unigram_entropy(const std::string& path);

}  // namespace rehearse
