#pragma once
// The types a run computes in, chosen when it starts: a Program's own types say what the plan stores, not what this device can.

#include <cstddef>
#include <cstdint>

#include "core/units/dtype.hpp"

namespace rehearse {

/// Storage and arithmetic of every real number of a run. fp64 is for parity: it makes the order of additions harmless.
enum class Numerics : std::uint8_t { fp32, fp64 };

/// What one stored element is. Masks and ids keep their own types under either arithmetic.
enum class ElementType : std::uint8_t { real32, real64, int64, byte };

[[nodiscard]] constexpr ElementType stored_as(DType type, Numerics numerics) {
  switch (type) {
    case DType::int64:
    case DType::int32: return ElementType::int64;
    case DType::uint8: return ElementType::byte;
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
  }
  return 0;
}

}  // namespace rehearse
