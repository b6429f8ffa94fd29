#pragma once
// CUDA C++ on the machine of machine.hpp. Shared memory is static: blocks run one after the other.

#include <cmath>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>

#include "cuda_runtime_api.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static thread_local
#define __launch_bounds__(...)

struct alignas(16) uint4 { unsigned x, y, z, w; };

inline void __syncthreads() { on_cpu::meet_block(); }
inline int __syncthreads_or(int x) { return on_cpu::any_of_block(x != 0) ? 1 : 0; }
inline void __syncwarp() { (void)on_cpu::meet_warp({}); }
template <class T>
T on_cpu_from_lane(T x, int lane) {
  static_assert(sizeof(T) <= 8);
  std::uint64_t mine = 0;
  std::memcpy(&mine, &x, sizeof x);
  const on_cpu::Given* all = on_cpu::meet_warp({mine});
  T out;
  std::memcpy(&out, all[lane].data(), sizeof out);
  return out;
}
template <class T>
T __shfl_xor_sync(unsigned, T x, int mask) { return on_cpu_from_lane(x, on_cpu::lane() ^ mask); }
template <class T>
T __shfl_sync(unsigned, T x, int lane) { return on_cpu_from_lane(x, lane); }
inline unsigned __ballot_sync(unsigned, bool x) {
  const on_cpu::Given* all = on_cpu::meet_warp({x ? 1u : 0u});
  unsigned out = 0;
  for (int l = 0; l < 32; ++l) out |= static_cast<unsigned>(all[l][0]) << l;
  return out;
}
inline int atomicMin(int* at, int x) {
  const int was = *at;
  if (x < was) *at = x;
  return was;
}
inline int __ffs(int x) { return __builtin_ffs(x); }

using std::cos;
using std::erf;
using std::exp;
using std::exp2;
using std::floor;
using std::ilogb;
using std::ldexp;
using std::log;
using std::log1p;
using std::log2;
using std::pow;
using std::rint;
using std::sin;
using std::sqrt;
using std::tanh;

struct cudaLaunchConfig_t { dim3 gridDim, blockDim; std::size_t dynamicSmemBytes = 0; cudaStream_t stream = nullptr; };
/// Bytes of shared memory that kernels were allowed beyond what any may take.
struct OnCpuAllowed { std::mutex mutex; std::map<const void*, std::size_t> bytes; };
inline OnCpuAllowed on_cpu_allowed;
/// What compute capability 9.0 launches.
inline bool on_cpu_may_launch(const void* kernel, dim3 grid, dim3 block, std::size_t shared) {
  const std::size_t threads = std::size_t{block.x} * block.y * block.z;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) return false;
  if (threads == 0 || threads > 1024 || block.z > 64) return false;
  const std::lock_guard lock(on_cpu_allowed.mutex);
  const auto more = on_cpu_allowed.bytes.find(kernel);
  return shared <= (more != on_cpu_allowed.bytes.end() ? more->second : std::size_t{48} << 10);
}
template <class... P, class... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(P...), A&&... arguments) {
  if (!on_cpu_may_launch(reinterpret_cast<const void*>(kernel), config->gridDim, config->blockDim, config->dynamicSmemBytes)) return cudaErrorInvalidConfiguration;
  if (!on_cpu::load(reinterpret_cast<const void*>(kernel))) return cudaErrorLaunchFailure;
  ++on_cpu::issued.kernels;
  const std::tuple<std::remove_cv_t<P>...> copies(static_cast<P>(arguments)...);
  return on_cpu_do(config->stream, [=, grid = config->gridDim, block = config->blockDim, shared = config->dynamicSmemBytes] {
    on_cpu::run(grid, block, shared, [&] { std::apply(kernel, copies); });
  });
}
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
inline cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int bytes) {
  if (bytes > 227 * 1024) return cudaErrorInvalidConfiguration;
  const std::lock_guard lock(on_cpu_allowed.mutex);
  on_cpu_allowed.bytes[kernel] = static_cast<std::size_t>(bytes);
  return cudaSuccess;
}
