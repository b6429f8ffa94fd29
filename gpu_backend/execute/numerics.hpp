#pragma once
// The types a run computes in, chosen when it starts: a Program's own types say what the plan stores, not what this
// device can.

#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/base/dtype.hpp"

namespace rehearse {

/// Storage and arithmetic of the real numbers of a run. fp64 is for parity: it makes the order of additions harmless.
/// `plan` is what the Program says: 16-bit types are stored as bfloat16, what is cast to fp8 too, all others as fp32;
/// products of tf32 tasks may round their factors to tf32. Sums are fp32 then. Not every device has it.
enum class Numerics : std::uint8_t { fp32, fp64, plan };

/// What one stored element is. Masks and ids keep their own types under any arithmetic. real16 is bfloat16.
enum class ElementType : std::uint8_t { real32, real64, int64, byte, real16 };

[[nodiscard]] constexpr ElementType stored_as(DType type, Numerics numerics) {
  switch (type) {
    case DType::int64:
    case DType::int32: return ElementType::int64;
    case DType::uint8: return ElementType::byte;
    case DType::bf16:
    case DType::fp16:
    case DType::fp8:
    case DType::mxfp8:
      if (numerics == Numerics::plan) return ElementType::real16;
      [[fallthrough]];
    default: return numerics == Numerics::fp64 ? ElementType::real64 : ElementType::real32;
  }
}

/// Bytes of one element.
[[nodiscard]] constexpr std::size_t size_of(ElementType type) {
  switch (type) {
    case ElementType::real32: return 4;
    case ElementType::real64:
    case ElementType::int64: return 8;
    case ElementType::byte: return 1;
    case ElementType::real16: return 2;
  }
  return 0;
}

/// bfloat16 is the upper half of a float; the nearest one, ties to even. NaN stays NaN.
[[nodiscard]] constexpr std::uint16_t to_bfloat16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
[[nodiscard]] constexpr float from_bfloat16(std::uint16_t x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16);
}

}  // namespace rehearse
