#pragma once
// Random numbers without state: a function of a key and a counter, so that any rank computes the number of any global
// element.

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace rehearse {

/// Names one stream of numbers. Numbers of different keys, and of different counters under one key, are independent for
/// all purposes of training: two rounds of the SplitMix64 finaliser (Steele, Lea, Flood 2014).
class RandomKey {
 public:
  constexpr RandomKey() = default;
  constexpr explicit RandomKey(std::uint64_t seed) : state_(mix(seed + kStep)) {}

  [[nodiscard]] constexpr RandomKey with(std::uint64_t part) const {
    return RandomKey{mix(state_ ^ mix(part + kStep)), Raw{}};
  }
  [[nodiscard]] constexpr RandomKey with(std::string_view name) const {
    std::uint64_t h = 14695981039346656037ull;
    for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ull;
    return with(h);
  }
  [[nodiscard]] constexpr std::uint64_t bits(std::uint64_t counter) const {
    return mix(mix(state_ + counter * kStep) ^ state_);
  }
  /// In [0, 1).
  [[nodiscard]] constexpr double uniform(std::uint64_t counter) const {
    return static_cast<double>(bits(counter) >> 11) * 0x1.0p-53;
  }
  /// Standard normal (Box and Muller 1958).
  [[nodiscard]] double normal(std::uint64_t counter) const {
    const double u = 1.0 - uniform(2 * counter), v = uniform(2 * counter + 1);
    return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
  }

 private:
  struct Raw {};
  constexpr RandomKey(std::uint64_t state, Raw) : state_(state) {}
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15ull;
  static constexpr std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
  }
  std::uint64_t state_ = 0;
};

}  // namespace rehearse
