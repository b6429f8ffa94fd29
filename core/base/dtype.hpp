#pragma once
// Element types of tensors and the arithmetic they run in.

#include <string_view>

namespace rehearse {

/// tf32 and mxfp8 are arithmetic types: elements of tf32 are stored in 4 bytes; mxfp8 multiplies fp8 whose blocks of 32
/// have a scale each.
enum class DType { fp64, fp32, tf32, bf16, fp16, fp8, mxfp8, fp4, int64, int32, uint8 };

/// Storage of one element in bytes; fp4 is half a byte.
[[nodiscard]] constexpr double size_of(DType t) {
  switch (t) {
    case DType::fp64:
    case DType::int64: return 8;
    case DType::fp32:
    case DType::tf32:
    case DType::int32: return 4;
    case DType::bf16:
    case DType::fp16: return 2;
    case DType::fp8:
    case DType::mxfp8:
    case DType::uint8: return 1;
    case DType::fp4: return 0.5;
  }
  return 0;
}

[[nodiscard]] std::string_view name_of(DType t);
/// Throws Error (usage) with the valid names and a suggestion.
[[nodiscard]] DType parse_dtype(std::string_view name);

}  // namespace rehearse
