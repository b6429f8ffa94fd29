#include "gpu_backend/train/given_samples.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/weights/safetensors.hpp"

namespace rehearse {

namespace {

/// A field of all samples.
template <class T>
struct GivenField {
  std::vector<T> values;
  std::int64_t each = 0;  ///< Values of a sample; 0: the file has no such field.
  [[nodiscard]] bool there() const { return each > 0; }
  [[nodiscard]] const T* of(std::int64_t sample) const { return values.data() + sample * each; }
};

class GivenSamples final : public DataSource {
 public:
  GivenSamples(const std::string& path, const SampleKind& kind) : path_(path), kind_(kind) {
    SafetensorsFile file(path);
    const bool sequences = kind.vocabulary > 0;
    if (sequences)
      load(file, "tokens", tokens_);
    else
      load(file, "image", image_);
    load(file, "labels", labels_);
    load(file, "token_types", types_);
    if (sequences && !tokens_.there()) refuse("tokens", "the file has no samples of tokens");
    if (!sequences && (!image_.there() || !labels_.there()))
      refuse(image_.there() ? "labels" : "image", "the file has no samples of images with labels");
    if (!sequences && image_.each != kind.numbers)
      refuse("image", fmt::format("a sample has {} numbers, and the network takes {}", image_.each, kind.numbers));
    check(tokens_, "tokens", kind.vocabulary);
    check(labels_, "labels", sequences ? kind.vocabulary : kind.classes);
  }

  void tokens(std::int64_t step, std::int64_t sample, std::int64_t length,
              std::vector<std::int64_t>& out) const override {
    take(tokens_, "tokens", at(step, sample), labels_.there() ? length : length + 1, out);
  }
  void labels(std::int64_t step, std::int64_t sample, std::int64_t length,
              std::vector<std::int64_t>& out) const override {
    if (labels_.there())
      take(labels_, "labels", at(step, sample), length, out);
    else
      DataSource::labels(step, sample, length, out);
  }
  void token_types(std::int64_t step, std::int64_t sample, std::int64_t length,
                   std::vector<std::int64_t>& out) const override {
    take(types_, "token_types", at(step, sample), length, out);
  }
  void image(std::int64_t step, std::int64_t sample, std::int64_t, std::vector<double>& out) const override {
    const double* const from = image_.of(at(step, sample));
    out.assign(from, from + image_.each);
  }
  std::int64_t label(std::int64_t step, std::int64_t sample) const override { return *labels_.of(at(step, sample)); }
  std::int64_t pixel_label(std::int64_t step, std::int64_t sample, std::int64_t pixel) const override {
    if (pixel >= labels_.each) refuse("labels", "the network's loss is of pixels, and a sample has fewer labels");
    return labels_.of(at(step, sample))[pixel];
  }
  [[nodiscard]] bool has(SampleField field) const override {
    return field != SampleField::token_types || types_.there();
  }
  [[nodiscard]] std::string describe() const override { return fmt::format("{} samples of {}", samples_, path_); }

 private:
  [[noreturn]] void refuse(const std::string& field, const std::string& what) const {
    throw Error(ErrorKind::usage, what, fmt::format("{}: {}", path_, field),
                "'rehearse run --help' says what a file of samples holds");
  }

  template <class T>
  void load(SafetensorsFile& file, const std::string& name, GivenField<T>& to) {
    const StoredWeights* found = file.find(name);
    if (found == nullptr) return;
    if (found->shape.empty() || found->shape[0] == 0 || found->elements() == 0)
      refuse(name, "there is no sample in it");
    if (samples_ != 0 && found->shape[0] != samples_)
      refuse(name, fmt::format("it has {} samples, and the field before it {}", found->shape[0], samples_));
    samples_ = found->shape[0];
    to.each = found->elements() / samples_;
    to.values.resize(static_cast<std::size_t>(found->elements()));
    file.read(*found, 0, to.values);
  }

  void check(const GivenField<std::int64_t>& field, const std::string& name, std::int64_t below) const {
    for (const std::int64_t v : field.values)
      if (v < 0 || v >= below) refuse(name, fmt::format("{} is not from 0 to {}", v, below - 1));
  }

  [[nodiscard]] std::int64_t at(std::int64_t step, std::int64_t sample) const {
    return (step * kind_.per_step + sample) % samples_;
  }
  void take(const GivenField<std::int64_t>& field, const std::string& name, std::int64_t sample, std::int64_t wanted,
            std::vector<std::int64_t>& out) const {
    if (field.each < wanted) refuse(name, fmt::format("a sample has {}, and {} are read", field.each, wanted));
    out.assign(field.of(sample), field.of(sample) + wanted);
  }

  std::string path_;
  SampleKind kind_;
  std::int64_t samples_ = 0;
  GivenField<std::int64_t> tokens_, labels_, types_;
  GivenField<double> image_;
};

}  // namespace

std::unique_ptr<DataSource> given_samples(const std::string& path, const SampleKind& kind) {
  return std::make_unique<GivenSamples>(path, kind);
}

}  // namespace rehearse
