#include "gpu_backend/data.hpp"

#include <array>
#include <cmath>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "core/units/error.hpp"
#include "gpu_backend/random.hpp"

namespace rehearse {

namespace {

class SyntheticTokens final : public DataSource {
 public:
  SyntheticTokens(std::uint64_t seed, std::int64_t vocabulary) : key_(RandomKey(seed).with("synthetic tokens")), vocabulary_(static_cast<std::uint64_t>(vocabulary)) {}
  void tokens(std::int64_t step, std::int64_t sample, std::int64_t length, std::vector<std::int64_t>& out) const override {
    const RandomKey key = key_.with(static_cast<std::uint64_t>(step)).with(static_cast<std::uint64_t>(sample));
    out.resize(static_cast<std::size_t>(length + 1));
    std::uint64_t last = key.bits(0) % vocabulary_;
    for (std::int64_t i = 0; i <= length; ++i) {
      const auto at = static_cast<std::uint64_t>(2 * i + 1);
      if (i > 0) last = key.bits(at) % 4 != 0 ? (5 * last + 7) % vocabulary_ : key.bits(at + 1) % vocabulary_;
      out[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(last);
    }
  }
  [[nodiscard]] std::string describe() const override { return "synthetic tokens"; }

 private:
  RandomKey key_;
  std::uint64_t vocabulary_;
};

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorKind::usage, fmt::format("cannot read '{}'", path), "--data", "give a file whose bytes are to be learned");
  return {std::istreambuf_iterator<char>(file), {}};
}

class FileBytes final : public DataSource {
 public:
  FileBytes(const std::string& path, std::uint64_t seed) : path_(path), text_(read_all(path)), key_(RandomKey(seed).with("bytes of a file")) {}
  void tokens(std::int64_t step, std::int64_t sample, std::int64_t length, std::vector<std::int64_t>& out) const override {
    const auto wanted = static_cast<std::uint64_t>(length + 1);
    if (text_.size() < wanted) throw Error(ErrorKind::usage, fmt::format("'{}' has {} bytes, fewer than a sample's {}", path_, text_.size(), wanted), "--data", "give a longer file");
    const std::uint64_t first = key_.with(static_cast<std::uint64_t>(step)).bits(static_cast<std::uint64_t>(sample)) % (text_.size() - wanted + 1);
    out.resize(wanted);
    for (std::uint64_t i = 0; i < wanted; ++i) out[i] = static_cast<unsigned char>(text_[first + i]);
  }
  [[nodiscard]] std::string describe() const override { return fmt::format("bytes of {} ({} bytes)", path_, text_.size()); }

 private:
  std::string path_, text_;
  RandomKey key_;
};

}  // namespace

std::unique_ptr<DataSource> synthetic_tokens(std::uint64_t seed, std::int64_t vocabulary) { return std::make_unique<SyntheticTokens>(seed, vocabulary); }

std::unique_ptr<DataSource> bytes_of_file(const std::string& path, std::uint64_t seed, std::int64_t vocabulary) {
  if (vocabulary < 256) throw Error(ErrorKind::usage, fmt::format("a vocabulary of {} cannot hold every byte", vocabulary), "--data", "use a model whose vocab_size is 256 or more");
  return std::make_unique<FileBytes>(path, seed);
}

double unigram_entropy(const std::string& path) {
  const std::string text = read_all(path);
  std::array<double, 256> count{};
  for (const char c : text) ++count[static_cast<unsigned char>(c)];
  double entropy = 0;
  for (const double n : count)
    if (n > 0) entropy -= n / static_cast<double>(text.size()) * std::log(n / static_cast<double>(text.size()));
  return entropy;
}

}  // namespace rehearse
