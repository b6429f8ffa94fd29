#pragma once
// Files of tensors in the format of safetensors 0.3 and later (github.com/huggingface/safetensors, README "Format"):
//
//   8 bytes     length N of the header, an unsigned little-endian number
//   N bytes     the header: a JSON object of NAME: {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, and
//               perhaps "__metadata__": texts by name; spaces may follow it
//   the rest    the elements, row-major and little-endian; offsets count from here, and leave no gap
//
//   SafetensorsFile file("model.safetensors");
//   if (const StoredWeights* w = file.find("wte.weight")) { std::vector<double> row(768); file.read(*w, 0, row); }

#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rehearse {

/// A tensor of a file.
struct StoredWeights {
  std::string name;
  std::string type;  ///< "F32", "BF16", "I64", ...
  std::vector<std::int64_t> shape;
  std::uint64_t first = 0, bytes = 0;  ///< Of the file.
  [[nodiscard]] std::int64_t elements() const;
};

/// A header longer than this is refused, as safetensors' own reader does.
inline constexpr std::uint64_t kLongestHeader = 100'000'000;

class SafetensorsFile {
 public:
  /// Reads the header. Throws Error (usage) with file and tensor: not such a file, cut off, an unknown type, a shape
  /// whose elements are not the bytes that it is given, elements of two tensors in one place, bytes of none.
  explicit SafetensorsFile(std::string path);

  [[nodiscard]] const std::string& path() const { return path_; }
  /// In the order of their bytes.
  [[nodiscard]] const std::vector<StoredWeights>& tensors() const { return tensors_; }
  /// Null where there is none of that name.
  [[nodiscard]] const StoredWeights* find(std::string_view name) const;
  /// Elements [first, first + to.size()) of a tensor of this file. Throws Error (usage) for types that are not read:
  /// 8-bit floating point, which means nothing without its scales.
  void read(const StoredWeights& tensor, std::int64_t first, std::span<double> to);
  /// The same of a tensor of whole numbers.
  void read(const StoredWeights& tensor, std::int64_t first, std::span<std::int64_t> to);

 private:
  [[noreturn]] void damaged(const std::string& what) const;
  std::vector<std::byte> bytes_of(const StoredWeights& tensor, std::int64_t first, std::size_t elements);

  std::string path_;
  std::ifstream in_;
  std::vector<StoredWeights> tensors_;
};

}  // namespace rehearse
