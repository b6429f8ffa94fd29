#include "gpu_backend/train/inputs.hpp"

#include <algorithm>
#include <span>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "gpu_backend/train/initial.hpp"

namespace rehearse {

namespace {

std::vector<std::byte> bytes_of(const std::vector<std::int64_t>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> token_values(const DataSource& data, SampleField field, const TensorView& out,
                                    std::int64_t first_sample, std::int64_t step) {
  const std::int64_t length = out.held->shape.at(1);
  std::vector<std::int64_t> of_sample, values;
  values.reserve(static_cast<std::size_t>(out.elements()));
  for (std::int64_t b = 0; b < out.extent(0); ++b) {
    const std::int64_t sample = first_sample + out.held->global_index(0, b);
    if (field == SampleField::labels)
      data.labels(step, sample, length, of_sample);
    else if (field == SampleField::token_types)
      data.token_types(step, sample, length, of_sample);
    else
      data.tokens(step, sample, length, of_sample);
    for (std::int64_t s = 0; s < out.extent(1); ++s) values.push_back(nth(of_sample, out.held->global_index(1, s)));
  }
  return bytes_of(values);
}

/// What a generator begins with: a function of the sample's number, as data is.
void noise(std::uint64_t seed, std::int64_t step, std::int64_t sample, std::int64_t n, std::vector<double>& out) {
  const RandomKey key =
      RandomKey(seed).with("noise").with(static_cast<std::uint64_t>(step)).with(static_cast<std::uint64_t>(sample));
  out.resize(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = key.normal(i);
}

/// Whether stored element i is a rank's own, not its neighbour's.
bool own(const Held& held, std::size_t i) {
  for (std::size_t d = held.inner.size(); d-- > 0; i /= static_cast<std::size_t>(held.extents[d])) {
    const auto x = static_cast<std::int64_t>(i % static_cast<std::size_t>(held.extents[d]));
    if (x < held.inner[d].first || x >= held.inner[d].first + held.inner[d].length) return false;
  }
  return true;
}

/// Numbers of images or vectors, or classes of samples or pixels.
std::vector<std::byte> image_values(const Program& program, const DataSource& data, SampleField field,
                                    const TensorView& out, std::int64_t first_sample, std::int64_t step) {
  std::int64_t per_sample = 1;
  for (std::size_t d = 1; d < out.held->shape.size(); ++d) per_sample *= out.held->shape[d];
  const std::vector<std::int64_t> elements = out.held->global_elements();
  const bool haloed = out.held->haloed();
  std::vector<double> numbers, values;
  std::vector<std::int64_t> classes;
  (out.type == ElementType::int64 ? classes.reserve(elements.size()) : values.reserve(elements.size()));
  std::int64_t sample = -1, first = 0;  // The one that was read last, and its first element.
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const bool other = sample < 0 || elements[i] < first || elements[i] >= first + per_sample;
    if (other) {
      first = elements[i] / per_sample * per_sample;
      sample = first_sample + elements[i] / per_sample;
    }
    const std::int64_t element = elements[i] - first;
    if (out.type == ElementType::int64) {
      classes.push_back(per_sample == 1 ? data.label(step, sample) : data.pixel_label(step, sample, element));
      continue;
    }
    if (other && field == SampleField::noise)
      noise(program.seed, step, sample, per_sample, numbers);
    else if (other)
      data.image(step, sample, per_sample, numbers);
    values.push_back(!haloed || own(*out.held, i) ? nth(numbers, element) : 0);
  }
  return out.type == ElementType::int64 ? bytes_of(classes) : encoded(values, out.type);
}

}  // namespace

void check_input(const Program& program, const DataSource& data, const InputTask& task) {
  const bool tokens = program.tokens_per_step > 0;
  const std::vector<SampleField> known =
      tokens ? std::vector{SampleField::tokens, SampleField::labels, SampleField::token_types}
             : std::vector{SampleField::image, SampleField::noise, SampleField::labels};
  const bool reads = std::find(known.begin(), known.end(), task.field) != known.end();
  if (reads && data.has(task.field)) return;
  std::vector<std::string_view> names;
  for (const SampleField f : known)
    if (data.has(f)) names.push_back(name_of(f));
  throw Error(
      ErrorKind::unavailable,
      reads ? fmt::format("{} have no '{}', which this network reads", data.describe(), task.what)
            : fmt::format("no data has the input '{}' of a network over {}", task.what, tokens ? "tokens" : "images"),
      "model",
      reads ? "give samples that have them: --data FILE.safetensors"
            : fmt::format("real runs read {}; 'rehearse simulate' plays this network", fmt::join(names, ", ")));
}

std::vector<std::byte> input_values(const Program& program, const DataSource& data, const InputTask& task,
                                    const TensorView& out, std::int64_t first_sample, std::int64_t step) {
  if (program.tokens_per_step > 0) return token_values(data, task.field, out, first_sample, step);
  return image_values(program, data, task.field, out, first_sample, step);
}

}  // namespace rehearse
