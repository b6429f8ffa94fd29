#pragma once
// Input: samples by their number, so that any rank reads its own and sharding never changes what is trained on.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace rehearse {

class DataSource {
 public:
  virtual ~DataSource() = default;
  /// `length` + 1 consecutive tokens of sample `sample` of step `step`: inputs are the first `length`, labels the last. Each is below `vocabulary`.
  virtual void tokens(std::int64_t step, std::int64_t sample, std::int64_t length, std::vector<std::int64_t>& out) const = 0;
  [[nodiscard]] virtual std::string describe() const = 0;
};

/// Sequences that can be learned: three tokens of four follow from the one before, the others are drawn.
[[nodiscard]] std::unique_ptr<DataSource> synthetic_tokens(std::uint64_t seed, std::int64_t vocabulary);

/// The bytes of a file, from a place that (seed, step, sample) decides. Throws Error (usage) where the file is shorter than a sample,
/// or the vocabulary has fewer than 256 tokens.
[[nodiscard]] std::unique_ptr<DataSource> bytes_of_file(const std::string& path, std::uint64_t seed, std::int64_t vocabulary);

/// Entropy of single bytes in nats: the loss of a model that knows only how often each byte occurs.
[[nodiscard]] double unigram_entropy(const std::string& path);

}  // namespace rehearse
