#pragma once
// What kernels share: types, access by vectors, sums over warps and blocks, launches.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <stdexcept>

#include "gpu_backend/cuda/check.hpp"
#include "gpu_backend/cuda/kernels/kernels.hpp"

namespace rehearse::cuda {

using Half = __nv_bfloat16;

template <class T>
struct AccumulatorOf {
  using type = float;
};
template <>
struct AccumulatorOf<double> {
  using type = double;
};
/// What sums of T are made in.
template <class T>
using Acc = typename AccumulatorOf<T>::type;

__device__ inline float widen(float x) { return x; }
__device__ inline double widen(double x) { return x; }
__device__ inline float widen(Half x) { return __bfloat162float(x); }
template <class T>
__device__ inline T narrow(Acc<T> x) {
  return static_cast<T>(x);
}
template <>
__device__ inline Half narrow<Half>(float x) {
  return __float2bfloat16_rn(x);
}

/// 1 / (1 + e^-x)
template <class A>
__device__ inline A sigmoid(A x) {
  return A(1) / (A(1) + exp(-x));
}

/// V consecutive elements, moved in accesses of up to 16 bytes.
template <int V, class T>
struct alignas(V * sizeof(T) < 16 ? V * sizeof(T) : 16) Stored {
  T at[V];
};
template <int V, class A>
struct Values {
  A at[V];
};

template <int V, class T>
__device__ inline Values<V, Acc<T>> read(const T* from, std::int64_t at) {
  const Stored<V, T> in = *reinterpret_cast<const Stored<V, T>*>(from + at);
  Values<V, Acc<T>> out;
#pragma unroll
  for (int i = 0; i < V; ++i) out.at[i] = widen(in.at[i]);
  return out;
}
template <int V, class T>
__device__ inline void write(T* to, std::int64_t at, const Values<V, Acc<T>>& values) {
  Stored<V, T> out;
#pragma unroll
  for (int i = 0; i < V; ++i) out.at[i] = narrow<T>(values.at[i]);
  *reinterpret_cast<Stored<V, T>*>(to + at) = out;
}

inline constexpr int kWarp = 32;

struct Sum {
  template <class A>
  __device__ static A of(A a, A b) {
    return a + b;
  }
};
struct Max {
  template <class A>
  __device__ static A of(A a, A b) {
    return a > b ? a : b;
  }
};

/// The same result in every lane.
template <class Op, class A>
__device__ inline A over_warp(A x) {
#pragma unroll
  for (int o = kWarp / 2; o > 0; o /= 2) x = Op::of(x, __shfl_xor_sync(0xffffffffu, x, o));
  return x;
}
/// The same result in every thread. Blocks are whole warps; `none` changes nothing.
template <class Op, class A>
__device__ inline A over_block(A x, A none) {
  __shared__ A of_warp[kWarp];
  x = over_warp<Op>(x);
  __syncthreads();  // Whoever still reads the last result.
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = x;
  __syncthreads();
  const int warps = static_cast<int>(blockDim.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  return over_warp<Op>(lane < warps ? of_warp[lane] : none);
}

inline constexpr std::int64_t kMostBlocks = 1 << 16;
inline constexpr unsigned kThreads = 256;

/// Blocks for n pieces of work of one block each; kernels loop where there are more.
inline unsigned blocks_for(std::int64_t n) {
  return static_cast<unsigned>(n < 1 ? 1 : n < kMostBlocks ? n : kMostBlocks);
}

template <class... P, class... A>
void launch(void (*kernel)(P...), dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream, A... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  REHEARSE_CUDA(cudaLaunchKernelEx(&config, kernel, static_cast<P>(arguments)...));
}

/// Calls f with a value of the C++ type that `type` is.
template <class F>
void with_real(ElementType type, F f) {
  switch (type) {
    case ElementType::real32: return f(float{});
    case ElementType::real64: return f(double{});
    case ElementType::real16: return f(Half{});
    default: throw std::logic_error("a kernel over real numbers is given others");
  }
}
/// The same for an operand and what is summed into: equal types, or 16 bit summed into fp32.
template <class F>
void with_sum(ElementType type, ElementType sum, F f) {
  if (type == sum) return with_real(type, [&](auto t) { f(t, t); });
  if (type == ElementType::real16 && sum == ElementType::real32) return f(Half{}, float{});
  throw std::logic_error("a kernel that adds to another type than it was built for");
}

template <class T>
const T* in(const Reals& x) {
  return static_cast<const T*>(x.data);
}
template <class T>
T* out(const Reals& x) {
  return static_cast<T*>(x.data);
}

/// Runs f.at<V>(i) for every V-th element.
template <int V, class F>
__global__ void each_kernel(F f, std::int64_t n) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x * V;
  for (std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * V; i < n; i += step)
    f.template at<V>(i);
}
/// By vectors where all pointers and n allow it.
template <int V, class F>
void each(cudaStream_t stream, F f, std::int64_t n, std::initializer_list<const void*> pointers) {
  if (n == 0) return;
  bool aligned = n % V == 0;
  for (const void* p : pointers) aligned = aligned && reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
  const std::int64_t per_block = static_cast<std::int64_t>(kThreads) * (aligned ? V : 1);
  const dim3 grid(blocks_for((n + per_block - 1) / per_block));
  if (aligned)
    launch(&each_kernel<V, F>, grid, dim3(kThreads), 0, stream, f, n);
  else
    launch(&each_kernel<1, F>, grid, dim3(kThreads), 0, stream, f, n);
}
/// Elements of T in 16 bytes.
template <class T>
inline constexpr int kVector = 16 / static_cast<int>(sizeof(T));

/// Runs f.at<V>(row, column) for every V-th element of rows.
template <int V, class F>
__global__ void each_of_rows_kernel(F f, std::int64_t rows, std::int64_t width) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x * V;
  for (std::int64_t r = blockIdx.y; r < rows; r += gridDim.y)
    for (std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * V; i < width; i += step)
      f.template at<V>(r, i);
}
inline constexpr std::int64_t kMostBlocksAbove = 65535;  // Of a grid's second dimension.
/// By vectors where all pointers and distances (multiples of V then) allow it.
template <int V, class F>
void each_of_rows(cudaStream_t stream, F f, std::int64_t rows, std::int64_t width,
                  std::initializer_list<const void*> pointers, std::initializer_list<std::int64_t> distances) {
  if (rows == 0 || width == 0) return;
  bool aligned = width % V == 0;
  for (const void* p : pointers) aligned = aligned && reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
  if (rows > 1)
    for (const std::int64_t d : distances) aligned = aligned && d % V == 0;
  const std::int64_t per_block = static_cast<std::int64_t>(kThreads) * (aligned ? V : 1);
  const dim3 grid(blocks_for((width + per_block - 1) / per_block),
                  static_cast<unsigned>(rows < kMostBlocksAbove ? rows : kMostBlocksAbove));
  if (aligned)
    launch(&each_of_rows_kernel<V, F>, grid, dim3(kThreads), 0, stream, f, rows, width);
  else
    launch(&each_of_rows_kernel<1, F>, grid, dim3(kThreads), 0, stream, f, rows, width);
}

}  // namespace rehearse::cuda
