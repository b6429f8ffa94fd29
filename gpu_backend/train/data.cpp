#include "gpu_backend/train/data.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "gpu_backend/execute/random.hpp"

namespace rehearse {

namespace {

class SyntheticTokens final : public DataSource {
 public:
  SyntheticTokens(std::uint64_t seed, std::int64_t vocabulary)
      : key_(RandomKey(seed).with("synthetic tokens")), vocabulary_(static_cast<std::uint64_t>(vocabulary)) {}
  void tokens(std::int64_t step, std::int64_t sample, std::int64_t length,
              std::vector<std::int64_t>& out) const override {
    const RandomKey key = key_.with(static_cast<std::uint64_t>(step)).with(static_cast<std::uint64_t>(sample));
    out.resize(static_cast<std::size_t>(length + 1));
    std::uint64_t last = key.bits(0) % vocabulary_;
    for (std::int64_t i = 0; i <= length; ++i) {
      const auto at = static_cast<std::uint64_t>(2 * i + 1);
      if (i > 0) last = key.bits(at) % 4 != 0 ? (5 * last + 7) % vocabulary_ : key.bits(at + 1) % vocabulary_;
      nth(out, i) = static_cast<std::int64_t>(last);
    }
  }
  [[nodiscard]] std::string describe() const override { return "synthetic tokens"; }

 private:
  RandomKey key_;
  std::uint64_t vocabulary_;
};

std::string read_all(const std::string& path) {
  std::error_code unknown;
  const bool folder = std::filesystem::is_directory(path, unknown);
  std::ifstream file(path, std::ios::binary);
  if (folder || !file)
    throw Error(
        ErrorKind::usage, folder ? fmt::format("'{}' is a folder", path) : fmt::format("cannot read '{}'", path),
        "--data",
        "give a file: its bytes are learned, or by a network over images its records, each a byte for the class "
        "and the pixels");
  return {std::istreambuf_iterator<char>(file), {}};
}

class SyntheticImages final : public DataSource {
 public:
  SyntheticImages(std::uint64_t seed, std::int64_t classes)
      : key_(RandomKey(seed).with("synthetic images")), classes_(static_cast<std::uint64_t>(classes)) {}
  std::int64_t label(std::int64_t step, std::int64_t sample) const override {
    return static_cast<std::int64_t>(key_of(step, sample).bits(0) % classes_);
  }
  void image(std::int64_t step, std::int64_t sample, std::int64_t n, std::vector<double>& out) const override {
    out.resize(static_cast<std::size_t>(n));
    const Drawn drawn(*this, step, sample);
    for (std::int64_t i = 0; i < n; ++i) nth(out, i) = drawn.value(i);
  }
  /// Brightness in as many steps as there are classes; two where there is one, and its absence.
  std::int64_t pixel_label(std::int64_t step, std::int64_t sample, std::int64_t pixel) const override {
    const auto steps = static_cast<double>(std::max<std::uint64_t>(2, classes_));
    return static_cast<std::int64_t>(
        std::clamp(std::floor((Drawn(*this, step, sample).value(pixel) + 2) / 4 * steps), 0.0, steps - 1));
  }
  [[nodiscard]] std::string describe() const override { return "synthetic images"; }

 private:
  [[nodiscard]] RandomKey key_of(std::int64_t step, std::int64_t sample) const {
    return key_.with(static_cast<std::uint64_t>(step)).with(static_cast<std::uint64_t>(sample));
  }
  /// The keys of one sample's numbers, made once for all of them.
  struct Drawn {
    RandomKey pattern, noise;
    Drawn(const SyntheticImages& of, std::int64_t step, std::int64_t sample)
        : pattern(of.key_.with("pattern").with(static_cast<std::uint64_t>(of.label(step, sample)))),
          noise(of.key_of(step, sample).with("noise")) {}
    [[nodiscard]] double value(std::int64_t i) const {
      const auto at = static_cast<std::uint64_t>(i);
      return pattern.normal(at) + 0.5 * noise.normal(at);
    }
  };
  RandomKey key_;
  std::uint64_t classes_;
};

class FileImages final : public DataSource {
 public:
  FileImages(const std::string& path, std::uint64_t seed, std::int64_t classes, std::int64_t pixels)
      : path_(path),
        bytes_(read_all(path)),
        record_(static_cast<std::size_t>(pixels) + 1),
        key_(RandomKey(seed).with("images of a file")) {
    if (bytes_.empty() || bytes_.size() % record_ != 0)
      throw Error(
          ErrorKind::usage,
          fmt::format("'{}' has {} bytes, no whole number of records of {}", path, bytes_.size(), record_), "--data",
          fmt::format("a record is a byte for the class and {} for the pixels, as in CIFAR-10's binary files", pixels));
    for (std::size_t r = 0; r < bytes_.size(); r += record_)
      if (static_cast<unsigned char>(bytes_[r]) >= classes)
        throw Error(ErrorKind::usage,
                    fmt::format("'{}': record {} is of class {}, and the model has {}", path, r / record_,
                                static_cast<int>(static_cast<unsigned char>(bytes_[r])), classes),
                    "--data", "use a model with more classes");
  }
  std::int64_t label(std::int64_t step, std::int64_t sample) const override {
    return static_cast<unsigned char>(bytes_[first(step, sample)]);
  }
  void image(std::int64_t step, std::int64_t sample, std::int64_t n, std::vector<double>& out) const override {
    if (static_cast<std::size_t>(n) + 1 != record_) throw std::logic_error("an image of another size than the file's");
    const std::size_t from = first(step, sample) + 1;
    out.resize(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<unsigned char>(bytes_[from + i]) / 127.5 - 1;
  }
  [[nodiscard]] std::string describe() const override {
    return fmt::format("images of {} ({} of {} bytes)", path_, bytes_.size() / record_, record_ - 1);
  }

 private:
  [[nodiscard]] std::size_t first(std::int64_t step, std::int64_t sample) const {
    return key_.with(static_cast<std::uint64_t>(step)).bits(static_cast<std::uint64_t>(sample)) %
           (bytes_.size() / record_) * record_;
  }
  std::string path_, bytes_;
  std::size_t record_;
  RandomKey key_;
};

class FileBytes final : public DataSource {
 public:
  FileBytes(const std::string& path, std::uint64_t seed)
      : path_(path), text_(read_all(path)), key_(RandomKey(seed).with("bytes of a file")) {}
  void tokens(std::int64_t step, std::int64_t sample, std::int64_t length,
              std::vector<std::int64_t>& out) const override {
    const auto wanted = static_cast<std::uint64_t>(length + 1);
    if (text_.size() < wanted)
      throw Error(ErrorKind::usage,
                  fmt::format("'{}' has {} bytes, fewer than a sample's {}", path_, text_.size(), wanted), "--data",
                  "give a longer file");
    const std::uint64_t first = key_.with(static_cast<std::uint64_t>(step)).bits(static_cast<std::uint64_t>(sample)) %
                                (text_.size() - wanted + 1);
    out.resize(wanted);
    for (std::uint64_t i = 0; i < wanted; ++i) out[i] = static_cast<unsigned char>(text_[first + i]);
  }
  [[nodiscard]] std::string describe() const override {
    return fmt::format("bytes of {} ({} bytes)", path_, text_.size());
  }

 private:
  std::string path_, text_;
  RandomKey key_;
};

}  // namespace

namespace {
[[noreturn]] void has_no(const DataSource& source, const char* what) {
  throw Error(ErrorKind::unavailable, fmt::format("{} hold no {}", source.describe(), what), "--data",
              "choose data that the network takes");
}
}  // namespace

void DataSource::tokens(std::int64_t, std::int64_t, std::int64_t, std::vector<std::int64_t>&) const {
  has_no(*this, "tokens");
}
void DataSource::labels(std::int64_t step, std::int64_t sample, std::int64_t length,
                        std::vector<std::int64_t>& out) const {
  tokens(step, sample, length, out);
  out.erase(out.begin());
}
void DataSource::token_types(std::int64_t, std::int64_t, std::int64_t, std::vector<std::int64_t>&) const {
  has_no(*this, "types of tokens");
}
void DataSource::image(std::int64_t, std::int64_t, std::int64_t, std::vector<double>&) const {
  has_no(*this, "images");
}
std::int64_t DataSource::label(std::int64_t, std::int64_t) const { has_no(*this, "classes"); }
std::int64_t DataSource::pixel_label(std::int64_t, std::int64_t, std::int64_t) const {
  has_no(*this, "classes of pixels");
}

std::unique_ptr<DataSource> synthetic_images(std::uint64_t seed, std::int64_t classes) {
  return std::make_unique<SyntheticImages>(seed, classes);
}
std::unique_ptr<DataSource> images_of_file(const std::string& path, std::uint64_t seed, std::int64_t classes,
                                           std::int64_t pixels) {
  return std::make_unique<FileImages>(path, seed, classes, pixels);
}

std::unique_ptr<DataSource> synthetic_tokens(std::uint64_t seed, std::int64_t vocabulary) {
  return std::make_unique<SyntheticTokens>(seed, vocabulary);
}

std::unique_ptr<DataSource> bytes_of_file(const std::string& path, std::uint64_t seed, std::int64_t vocabulary) {
  if (vocabulary < 256)
    throw Error(ErrorKind::usage, fmt::format("a vocabulary of {} cannot hold every byte", vocabulary), "--data",
                "use a model whose vocab_size is 256 or more");
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
