#pragma once
// 128 bits that stand for all that was mixed into them: equal input gives equal fingerprints, and other input others
// (two of n differ but for odds of n^2 / 2^129). Sums of fingerprints stand for multisets.

#include <bit>
#include <compare>
#include <concepts>
#include <cstdint>
#include <functional>

#include "core/base/bits.hpp"

namespace rehearse {

struct Fingerprint {
  std::uint64_t a = 0x243f6a8885a308d3, b = 0x13198a2e03707344;  // The first digits of pi.

  auto operator<=>(const Fingerprint&) const = default;
  Fingerprint& operator+=(const Fingerprint& other) {
    a += other.a;
    b += other.b;
    return *this;
  }

  /// This, followed by `value`.
  [[nodiscard]] Fingerprint with(std::integral auto value) const {
    constexpr bool kShort = sizeof(value) <= sizeof(std::uint32_t);
    const std::uint64_t word = kShort ? static_cast<std::uint32_t>(value) : static_cast<std::uint64_t>(value);
    return {scrambled(a ^ (word + 0x9e3779b97f4a7c15)), scrambled(std::rotl(b, 23) + (word ^ 0xc2b2ae3d27d4eb4f))};
  }
  [[nodiscard]] Fingerprint with(double value) const { return with(bits_of(value)); }
  [[nodiscard]] Fingerprint with(const Fingerprint& other) const { return with(other.a).with(other.b); }

 private:
  /// SplitMix64's finaliser (Steele, Lea, Flood, OOPSLA 2014).
  static std::uint64_t scrambled(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
};

struct HashOfFingerprint {
  std::size_t operator()(const Fingerprint& f) const noexcept { return static_cast<std::size_t>(f.a); }
};

}  // namespace rehearse
