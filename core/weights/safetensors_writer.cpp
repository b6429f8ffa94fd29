#include "core/weights/safetensors_writer.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"

namespace rehearse {
namespace {

constexpr std::size_t kHeaderAlignment = 8;  // Bytes: safetensors' own writer begins elements there.

}  // namespace

void SafetensorsWriter::cannot_write() const {
  throw Error(ErrorKind::check_failed, fmt::format("cannot write weights: {}", std::strerror(errno)), path_,
              "give a file in a folder that exists, on a disk with room");
}

SafetensorsWriter::SafetensorsWriter(std::string path, WeightsType type, const std::vector<WeightsToWrite>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : path_(std::move(path)), unfinished_(path_ + ".part"), type_(type), out_(unfinished_, std::ios::binary) {
  if (!out_) cannot_write();
  const std::int64_t each = type == WeightsType::real64 ? 8 : 4;
  auto header = nlohmann::ordered_json::object();
  header["__metadata__"] = metadata;
  std::int64_t at = 0;
  for (const WeightsToWrite& t : tensors) {
    std::int64_t elements = 1;
    for (const std::int64_t n : t.shape) elements *= n;
    missing_ += elements;
    header[t.name] = {{"dtype", type == WeightsType::real64 ? "F64" : "F32"},
                      {"shape", t.shape},
                      {"data_offsets", {at, at + elements * each}}};
    at += elements * each;
  }
  std::string text = header.dump();
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  const std::uint64_t length = text.size();
  out_.write(reinterpret_cast<const char*>(&length), sizeof length);
  out_.write(text.data(), static_cast<std::streamsize>(text.size()));
}

SafetensorsWriter::~SafetensorsWriter() {
  if (closed_) return;
  out_.close();
  std::error_code ignored;
  std::filesystem::remove(unfinished_, ignored);
}

void SafetensorsWriter::put(std::span<const double> elements) {
  missing_ -= static_cast<std::int64_t>(elements.size());
  if (type_ == WeightsType::real64) {
    out_.write(reinterpret_cast<const char*>(elements.data()), static_cast<std::streamsize>(elements.size_bytes()));
  } else {
    const std::vector<float> narrow(elements.begin(), elements.end());
    out_.write(reinterpret_cast<const char*>(narrow.data()),
               static_cast<std::streamsize>(narrow.size() * sizeof(float)));
  }
  if (!out_) cannot_write();
}

void SafetensorsWriter::close() {
  if (missing_ != 0) throw std::logic_error(fmt::format("{} elements of '{}' are missing", missing_, path_));
  out_.close();
  if (!out_) cannot_write();
  std::error_code failed;
  std::filesystem::rename(unfinished_, path_, failed);
  if (failed) {
    errno = failed.value();
    cannot_write();
  }
  closed_ = true;
}

}  // namespace rehearse
