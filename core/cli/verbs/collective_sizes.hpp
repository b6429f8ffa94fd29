#pragma once
// The sizes of nccl-tests: -b, -e, -f, -i, and how a size becomes elements per rank.

#include <string>
#include <vector>

#include "core/collective/collective_op.hpp"

namespace rehearse::cli {

/// "8", "64K", "1G" (powers of 1024, as nccl-tests), or with a unit: "64KiB", "1MB". Throws Error (usage), `where` the
/// option.
[[nodiscard]] double parse_size(const std::string& text, const std::string& option);

struct SizeRange {
  double first = 8, last = 1 << 30;
  double factor = 2;     ///< Above 1; 0 where steps are added.
  double increment = 0;  ///< Bytes; 0 where steps multiply.
};
/// Throws Error (usage) for an empty range, a step that leads nowhere, or more than 10,000 sizes.
[[nodiscard]] std::vector<double> sizes_of(const SizeRange& range);

/// NCCL's type names and their bytes: int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16, f8e4m3,
/// f8e5m2. The shorter fp16, bf16, fp32, fp64 are understood. Throws Error (usage) with the valid names.
struct ElementType {
  std::string name;
  int bytes;
  bool is_fp8;
  bool in_switch;
};
[[nodiscard]] ElementType parse_element_type(const std::string& name);

/// What nccl-tests makes of a size: a whole number of elements, and where ranks divide the buffer, of 16 bytes per
/// rank.
struct Buffer {
  double count, bytes;
};
[[nodiscard]] Buffer buffer_of(CollectiveOp op, double size, int element_bytes, int ranks);

}  // namespace rehearse::cli
