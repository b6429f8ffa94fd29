#pragma once
// Numbers whose type is looked up when they are read: for kernels that memory or index arithmetic bounds, so that they
// need not exist per type.

#include "gpu_backend/cuda/kernels/common.cuh"

namespace rehearse::cuda {

template <class A>
__device__ inline A get(const Reals& x, std::int64_t i) {
  switch (x.type) {
    case ElementType::real32: return static_cast<A>(static_cast<const float*>(x.data)[i]);
    case ElementType::real64: return static_cast<A>(static_cast<const double*>(x.data)[i]);
    case ElementType::real16: return static_cast<A>(widen(static_cast<const Half*>(x.data)[i]));
    case ElementType::int64: return static_cast<A>(static_cast<const std::int64_t*>(x.data)[i]);
    case ElementType::byte: return static_cast<A>(static_cast<const std::uint8_t*>(x.data)[i]);
  }
  return A(0);
}
template <class A>
__device__ inline void put(const Reals& x, std::int64_t i, A value) {
  switch (x.type) {
    case ElementType::real32: static_cast<float*>(x.data)[i] = static_cast<float>(value); break;
    case ElementType::real64: static_cast<double*>(x.data)[i] = static_cast<double>(value); break;
    case ElementType::real16: static_cast<Half*>(x.data)[i] = narrow<Half>(static_cast<float>(value)); break;
    case ElementType::int64: static_cast<std::int64_t*>(x.data)[i] = static_cast<std::int64_t>(value); break;
    case ElementType::byte: static_cast<std::uint8_t*>(x.data)[i] = static_cast<std::uint8_t>(value); break;
  }
}

/// Calls f with a value of what sums over operands of `type` are made in.
template <class F>
void with_sums_of(ElementType type, F f) {
  if (type == ElementType::real64)
    f(double{});
  else
    f(float{});
}
[[nodiscard]] constexpr std::size_t sum_bytes(ElementType type) { return type == ElementType::real64 ? 8 : 4; }

/// f.at<1>(i) for all i below n.
template <class F>
void each_one(cudaStream_t stream, F f, std::int64_t n) {
  each<1>(stream, f, n, {});
}

}  // namespace rehearse::cuda
