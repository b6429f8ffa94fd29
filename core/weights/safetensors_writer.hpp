#pragma once
// Writes a file that safetensors.hpp reads, tensor by tensor, so that no more than a part of one is in memory.

#include <cstdint>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace rehearse {

/// A tensor that is to be written.
struct WeightsToWrite {
  std::string name;
  std::vector<std::int64_t> shape;
};

enum class WeightsType : std::uint8_t { real32, real64 };

class SafetensorsWriter {
 public:
  /// The file stands under its name once close() returns; a file of that name stays as it is until then. `metadata` are
  /// texts that readers may show: Hugging Face's wants "format": "pt". Throws Error (check_failed) with the cause.
  SafetensorsWriter(std::string path, WeightsType type, const std::vector<WeightsToWrite>& tensors,
                    const std::map<std::string, std::string>& metadata);
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// The next elements, of all tensors one after the other.
  void put(std::span<const double> elements);
  /// Throws std::logic_error where elements are missing.
  void close();

 private:
  [[noreturn]] void cannot_write() const;
  std::string path_, unfinished_;
  WeightsType type_;
  std::ofstream out_;
  std::int64_t missing_ = 0;
  bool closed_ = false;
};

}  // namespace rehearse
