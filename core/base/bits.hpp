#pragma once
// The bits of a number, as std::bit_cast gives them where a library has it (portable.hpp).

#include <cstdint>
#include <cstring>

namespace rehearse {

[[nodiscard]] inline std::uint64_t bits_of(double value) {
  std::uint64_t out = 0;
  static_assert(sizeof out == sizeof value);
  std::memcpy(&out, &value, sizeof out);
  return out;
}

}  // namespace rehearse
