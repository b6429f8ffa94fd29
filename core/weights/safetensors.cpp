#include "core/weights/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/config/json_file.hpp"
#include "core/config/object_reader.hpp"

namespace rehearse {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are copied as they stand in the file");

constexpr std::uint64_t kPreambleBytes = 8;

template <class T>
T element_at(const std::byte* from) {
  T out;
  std::memcpy(&out, from, sizeof out);
  return out;
}

/// IEEE 754 half precision.
double half(const std::byte* from) {
  const auto bits = element_at<std::uint16_t>(from);
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const double size = exponent == 31  ? (fraction == 0 ? std::numeric_limits<double>::infinity()
                                                       : std::numeric_limits<double>::quiet_NaN())
                      : exponent == 0 ? std::ldexp(fraction, -24)
                                      : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

double brain(const std::byte* from) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(element_at<std::uint16_t>(from)) << 16);
}

template <class T>
double real(const std::byte* from) {
  return static_cast<double>(element_at<T>(from));
}
template <class T>
std::int64_t whole(const std::byte* from) {
  return static_cast<std::int64_t>(element_at<T>(from));
}

/// A type of elements. `value` is null where it is known and not read, `number` where it holds no whole numbers.
struct StoredType {
  std::string_view name;
  std::size_t bytes;
  double (*value)(const std::byte*);
  std::int64_t (*number)(const std::byte*);
};
constexpr StoredType kStoredTypes[] = {
    {"F64", 8, real<double>, nullptr},
    {"F32", 4, real<float>, nullptr},
    {"F16", 2, half, nullptr},
    {"BF16", 2, brain, nullptr},
    {"F8_E4M3", 1, nullptr, nullptr},
    {"F8_E5M2", 1, nullptr, nullptr},
    {"I64", 8, real<std::int64_t>, whole<std::int64_t>},
    {"I32", 4, real<std::int32_t>, whole<std::int32_t>},
    {"I16", 2, real<std::int16_t>, whole<std::int16_t>},
    {"I8", 1, real<std::int8_t>, whole<std::int8_t>},
    {"U64", 8, real<std::uint64_t>, whole<std::uint64_t>},
    {"U32", 4, real<std::uint32_t>, whole<std::uint32_t>},
    {"U16", 2, real<std::uint16_t>, whole<std::uint16_t>},
    {"U8", 1, real<std::uint8_t>, whole<std::uint8_t>},
    {"BOOL", 1, real<std::uint8_t>, whole<std::uint8_t>},
};

const StoredType* type_of(std::string_view name) {
  const auto* const at = std::find_if(std::begin(kStoredTypes), std::end(kStoredTypes),
                                      [&](const StoredType& t) { return t.name == name; });
  return at == std::end(kStoredTypes) ? nullptr : at;
}

/// Bytes that a shape takes; nothing where they are more than a file can have.
std::optional<std::uint64_t> bytes_of_shape(const std::vector<std::int64_t>& shape, std::uint64_t each) {
  std::uint64_t out = each;
  for (const std::int64_t n : shape)
    if (__builtin_mul_overflow(out, static_cast<std::uint64_t>(n), &out)) return std::nullopt;
  return out;
}

std::vector<std::int64_t> sizes_of(ObjectReader& in, const std::string& key) {
  std::vector<std::int64_t> out;
  for (const double v : in.numbers(key, {0.0, kExactIntegers})) {
    if (v != std::floor(v)) in.fail(key, "sizes are whole numbers");
    out.push_back(static_cast<std::int64_t>(v));
  }
  return out;
}

/// One entry of the header; `data` is the byte of the file that offsets count from.
StoredWeights entry_of(ObjectReader in, const std::string& name, std::uint64_t data, std::uint64_t file_bytes) {
  StoredWeights out;
  out.name = name;
  out.type = in.string("dtype");
  const StoredType* type = type_of(out.type);
  if (type == nullptr) {
    std::vector<std::string_view> known;
    for (const StoredType& t : kStoredTypes) known.push_back(t.name);
    in.fail("dtype", fmt::format("unknown type '{}'", out.type), fmt::format("known are {}", fmt::join(known, ", ")));
  }
  out.shape = sizes_of(in, "shape");
  const std::vector<std::int64_t> offsets = sizes_of(in, "data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1])
    in.fail("data_offsets", "give the first byte and that after the last");
  out.first = data + static_cast<std::uint64_t>(offsets[0]);
  out.bytes = static_cast<std::uint64_t>(offsets[1] - offsets[0]);
  const auto wanted = bytes_of_shape(out.shape, type->bytes);
  if (!wanted || *wanted != out.bytes)
    in.fail("data_offsets",
            fmt::format("{} bytes hold no {} of shape [{}]", out.bytes, out.type, fmt::join(out.shape, ", ")));
  if (out.first + out.bytes > file_bytes)
    in.fail("data_offsets",
            fmt::format("the file ends {} bytes before this tensor does", out.first + out.bytes - file_bytes),
            "get the file again: it was cut off");
  in.finish();
  return out;
}

}  // namespace

std::int64_t StoredWeights::elements() const {
  std::int64_t out = 1;
  for (const std::int64_t n : shape) out *= n;
  return out;
}

void SafetensorsFile::damaged(const std::string& what) const {
  throw Error(ErrorKind::usage, what, path_, "give a file that safetensors wrote, or get it again");
}

SafetensorsFile::SafetensorsFile(std::string path) : path_(std::move(path)), in_(path_, std::ios::binary) {
  std::error_code failed;
  const std::uint64_t all = std::filesystem::file_size(path_, failed);
  if (!in_ || failed) damaged("no file of weights can be read here");
  std::uint64_t length = 0;
  if (all < kPreambleBytes) damaged("too short to hold tensors");
  in_.read(reinterpret_cast<char*>(&length), sizeof length);
  if (length > kLongestHeader || length > all - kPreambleBytes)
    damaged(fmt::format("the header is to have {} bytes: this is no file of safetensors, or it was cut off", length));
  std::string text(static_cast<std::size_t>(length), '\0');
  if (!in_.read(text.data(), static_cast<std::streamsize>(length))) damaged("the header cannot be read");
  const nlohmann::json header = parse_json(text, path_, {.bytes = kLongestHeader, .depth = 8});
  ObjectReader top(header, path_);
  const std::uint64_t data = kPreambleBytes + length;
  for (const std::string& name : top.keys())
    if (name != "__metadata__") tensors_.push_back(entry_of(top.object(name), name, data, all));
  std::sort(tensors_.begin(), tensors_.end(), [](const StoredWeights& a, const StoredWeights& b) {
    return std::pair(a.first, a.first + a.bytes) < std::pair(b.first, b.first + b.bytes);
  });
  std::uint64_t at = data;
  for (const StoredWeights& t : tensors_) {
    if (t.first < at) damaged(fmt::format("'{}' begins inside the tensor before it", t.name));
    if (t.first > at) damaged(fmt::format("{} bytes before '{}' belong to no tensor", t.first - at, t.name));
    at = t.first + t.bytes;
  }
  if (at != all) damaged(fmt::format("{} bytes at its end belong to no tensor", all - at));
}

const StoredWeights* SafetensorsFile::find(std::string_view name) const {
  const auto at =
      std::find_if(tensors_.begin(), tensors_.end(), [&](const StoredWeights& t) { return t.name == name; });
  return at == tensors_.end() ? nullptr : &*at;
}

std::vector<std::byte> SafetensorsFile::bytes_of(const StoredWeights& tensor, std::int64_t first,
                                                 std::size_t elements) {
  const std::size_t each = type_of(tensor.type)->bytes;
  std::vector<std::byte> out(elements * each);
  in_.clear();
  in_.seekg(static_cast<std::streamoff>(tensor.first + static_cast<std::uint64_t>(first) * each));
  if (!in_.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(out.size())))
    damaged(fmt::format("'{}' cannot be read", tensor.name));
  return out;
}

void SafetensorsFile::read(const StoredWeights& tensor, std::int64_t first, std::span<double> to) {
  const StoredType& type = *type_of(tensor.type);
  if (type.value == nullptr)
    throw Error(ErrorKind::usage, fmt::format("'{}' is stored as {}, which needs scales", tensor.name, type.name),
                path_, "give weights of 16 bits or more");
  const std::vector<std::byte> bytes = bytes_of(tensor, first, to.size());
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = type.value(bytes.data() + i * type.bytes);
}

void SafetensorsFile::read(const StoredWeights& tensor, std::int64_t first, std::span<std::int64_t> to) {
  const StoredType& type = *type_of(tensor.type);
  if (type.number == nullptr)
    throw Error(ErrorKind::usage, fmt::format("'{}' is stored as {}: whole numbers are wanted", tensor.name, type.name),
                path_, "store it as I64");
  const std::vector<std::byte> bytes = bytes_of(tensor, first, to.size());
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = type.number(bytes.data() + i * type.bytes);
}

}  // namespace rehearse
