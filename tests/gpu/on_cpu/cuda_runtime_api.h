#pragma once
// The calls of the CUDA runtime that the product makes, on the machine of machine.hpp: streams run what they are given at once, in order of issue,
// which is one of the orders that a GPU may choose. Fresh memory is filled with NaN.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "machine.hpp"

enum cudaError_t { cudaSuccess = 0, cudaErrorMemoryAllocation = 2, cudaErrorNotReady = 600 };
inline const char* cudaGetErrorString(cudaError_t e) { return e == cudaSuccess ? "no error" : "error of the machine on the CPU"; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }

typedef struct CUstream_st* cudaStream_t;
struct CUevent_st { double at = 0; };
typedef CUevent_st* cudaEvent_t;

enum { cudaEventDefault = 0, cudaEventDisableTiming = 2, cudaStreamNonBlocking = 1 };
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) { *s = reinterpret_cast<cudaStream_t>(std::malloc(1)); return cudaSuccess; }
inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t* s, unsigned f, int) { return cudaStreamCreateWithFlags(s, f); }
inline cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) { *least = 0, *greatest = -1; return cudaSuccess; }
inline cudaError_t cudaStreamDestroy(cudaStream_t s) { std::free(s); return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }

inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) { *e = new CUevent_st; return cudaSuccess; }
inline cudaError_t cudaEventCreate(cudaEvent_t* e) { return cudaEventCreateWithFlags(e, 0); }
inline cudaError_t cudaEventDestroy(cudaEvent_t e) { delete e; return cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t) {
  e->at = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  return cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t a, cudaEvent_t b) { *ms = static_cast<float>((b->at - a->at) * 1e3); return cudaSuccess; }

// ---- memory

enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault };
inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t n, cudaMemcpyKind) { std::memmove(to, from, n); return cudaSuccess; }
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t n, cudaMemcpyKind k, cudaStream_t) { return cudaMemcpy(to, from, n, k); }
inline cudaError_t cudaMemsetAsync(void* to, int value, std::size_t n, cudaStream_t) { std::memset(to, value, n); return cudaSuccess; }
inline cudaError_t cudaMalloc(void** p, std::size_t n) {
  *p = std::aligned_alloc(256, (n + 255) / 256 * 256);
  if (*p == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*p, 0xff, n);
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* p) { std::free(p); return cudaSuccess; }
inline cudaError_t cudaMallocHost(void** p, std::size_t n) { return cudaMalloc(p, n); }
inline cudaError_t cudaFreeHost(void* p) { return cudaFree(p); }
inline cudaError_t cudaMemGetInfo(std::size_t* left, std::size_t* all) { *left = *all = std::size_t{16} << 30; return cudaSuccess; }
enum cudaMemoryType { cudaMemoryTypeHost = 1, cudaMemoryTypeDevice = 2 };
struct cudaPointerAttributes { cudaMemoryType type; };
inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* a, const void*) { a->type = cudaMemoryTypeDevice; return cudaSuccess; }

enum { cudaMemAllocationTypePinned = 1, cudaMemLocationTypeDevice = 1 };
struct cudaMemPoolProps { int allocType; struct { int type, id; } location; };
struct CUmemPoolHandle_st { std::uint64_t used = 0, high = 0; };
typedef CUmemPoolHandle_st* cudaMemPool_t;
enum cudaMemPoolAttr { cudaMemPoolAttrReleaseThreshold, cudaMemPoolAttrUsedMemCurrent, cudaMemPoolAttrUsedMemHigh };
inline cudaError_t cudaMemPoolCreate(cudaMemPool_t* p, const cudaMemPoolProps*) { *p = new CUmemPoolHandle_st; return cudaSuccess; }
inline cudaError_t cudaMemPoolDestroy(cudaMemPool_t p) { delete p; return cudaSuccess; }
inline cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
inline cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t p, cudaMemPoolAttr what, void* value) {
  *static_cast<std::uint64_t*>(value) = what == cudaMemPoolAttrUsedMemHigh ? p->high : p->used;
  return cudaSuccess;
}
inline cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, std::size_t) { return cudaSuccess; }
/// The block's size and pool lie before it; behind it are bytes that nobody may write.
struct alignas(256) OnCpuBlock { std::size_t bytes; cudaMemPool_t pool; };
inline constexpr std::size_t kOnCpuFence = 256;
inline constexpr unsigned char kOnCpuFenceByte = 0xa5;
inline cudaError_t cudaMallocFromPoolAsync(void** p, std::size_t n, cudaMemPool_t pool, cudaStream_t) {
  void* block = nullptr;
  if (const cudaError_t failed = cudaMalloc(&block, n + sizeof(OnCpuBlock) + kOnCpuFence); failed != cudaSuccess) return failed;
  new (block) OnCpuBlock{n, pool};
  std::memset(static_cast<char*>(block) + sizeof(OnCpuBlock) + n, kOnCpuFenceByte, kOnCpuFence);
  pool->used += n;
  if (pool->used > pool->high) pool->high = pool->used;
  *p = static_cast<char*>(block) + sizeof(OnCpuBlock);
  return cudaSuccess;
}
inline cudaError_t cudaFreeAsync(void* p, cudaStream_t) {
  auto* block = reinterpret_cast<OnCpuBlock*>(static_cast<char*>(p) - sizeof(OnCpuBlock));
  for (std::size_t i = 0; i < kOnCpuFence; ++i)
    if (static_cast<unsigned char*>(p)[block->bytes + i] != kOnCpuFenceByte) {
      std::fprintf(stderr, "a kernel or copy wrote beyond its memory of %zu bytes\n", block->bytes);
      std::abort();
    }
  block->pool->used -= block->bytes;
  std::memset(p, 0xff, block->bytes);  // Whoever still uses it will notice.
  return cudaFree(block);
}
