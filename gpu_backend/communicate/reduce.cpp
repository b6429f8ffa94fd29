#include <algorithm>
#include <stdexcept>

#include "gpu_backend/communicate/local_world.hpp"

namespace rehearse {

namespace {

template <class T>
void reduce(std::byte* to, const std::byte* from, std::int64_t n, ReduceOp op) {
  auto* a = reinterpret_cast<T*>(to);
  const auto* b = reinterpret_cast<const T*>(from);
  switch (op) {
    case ReduceOp::sum:
      for (std::int64_t i = 0; i < n; ++i) a[i] = static_cast<T>(a[i] + b[i]);
      break;
    case ReduceOp::max:
      for (std::int64_t i = 0; i < n; ++i) a[i] = std::max(a[i], b[i]);
      break;
    case ReduceOp::min:
      for (std::int64_t i = 0; i < n; ++i) a[i] = std::min(a[i], b[i]);
      break;
    case ReduceOp::logical_or:
      for (std::int64_t i = 0; i < n; ++i) a[i] = a[i] != T{0} || b[i] != T{0} ? T{1} : T{0};
      break;
  }
}

}  // namespace

void reduce_into(std::byte* to, const std::byte* from, std::int64_t n, ElementType type, ReduceOp op) {
  switch (type) {
    case ElementType::real32: reduce<float>(to, from, n, op); break;
    case ElementType::real64: reduce<double>(to, from, n, op); break;
    case ElementType::int64: reduce<std::int64_t>(to, from, n, op); break;
    case ElementType::byte: reduce<std::uint8_t>(to, from, n, op); break;
    case ElementType::real16: throw std::logic_error("16-bit numbers are reduced on the GPUs that hold them");
  }
}

}  // namespace rehearse
