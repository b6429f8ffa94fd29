#pragma once
// The two formats of 8-bit real numbers (Micikevicius et al. 2022, table 1).

namespace rehearse {

/// Bits of the mantissa, exponent of the smallest normal number, largest number.
struct Fp8Format {
  int mantissa = 0, smallest = 0;
  double largest = 0;
};
inline constexpr Fp8Format kE4m3{3, -6, 448}, kE5m2{2, -14, 57344};

}  // namespace rehearse
