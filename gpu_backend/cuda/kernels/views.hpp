#pragma once
// What kernels are told about their operands: plain structs that pass by value.

#include <cstdint>

#include "gpu_backend/execute/numerics.hpp"
#include "gpu_backend/execute/random.hpp"

namespace rehearse::cuda {

/// Real numbers in device memory, stored as `type`.
struct Reals {
  void* data = nullptr;
  ElementType type = ElementType::real32;
};

/// Global indices along one dimension: local coordinate x stands for first + x, or, from `length` on, for second + x -
/// length.
struct Line {
  std::int64_t first = 0, length = 0, second = 0;
  [[nodiscard]] constexpr std::int64_t at(std::int64_t x) const { return x < length ? first + x : second + x - length; }
};

/// Row-major global number of local element i.
struct GlobalElements {
  static constexpr int kMaxRank = 5;
  int rank = 0;
  std::int64_t extents[kMaxRank] = {};
  std::int64_t strides[kMaxRank] = {};  ///< Of the global tensor.
  Line lines[kMaxRank] = {};
  std::int64_t flat = 0;  ///< Local element that storage begins with.
  [[nodiscard]] constexpr std::int64_t at(std::int64_t i) const {
    std::int64_t out = 0;
    i += flat;
    for (int d = rank - 1; d >= 0; --d) {
      out += lines[d].at(i % extents[d]) * strides[d];
      i /= extents[d];
    }
    return out;
  }
};

/// A number that may differ from step to step: this call's, or, where a recorded step is replayed, what its place in
/// device memory holds then.
template <class T>
struct PerStep {
  T value{};
  const T* replayed = nullptr;
  [[nodiscard]] constexpr T get() const { return replayed != nullptr ? *replayed : value; }
};

/// Dropout as the CPU does it: element e stays where the random bits of `base` + e, over 2^53, are not below the
/// probability.
struct Dropout {
  PerStep<RandomKey> key;
  std::uint64_t threshold = 0;  ///< ceil(probability * 2^53): the comparison in integers, without rounding.
  double scale = 1;             ///< 1 / (1 - probability)
  std::int64_t base = 0;        ///< Number of the microbatch's first element among the step's.
  [[nodiscard]] constexpr bool on() const { return threshold > 0; }
  /// By the number in the step.
  [[nodiscard]] constexpr bool keeps_number(std::int64_t number) const {
    return (key.get().bits(static_cast<std::uint64_t>(number)) >> 11) >= threshold;
  }
  [[nodiscard]] constexpr bool keeps(std::int64_t element) const { return keeps_number(base + element); }
};

}  // namespace rehearse::cuda
