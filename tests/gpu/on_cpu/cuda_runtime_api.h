#pragma once
// The calls of the CUDA runtime that the product makes, on the machine of machine.hpp: streams run what they are given at once, in order of issue,
// which is one of the orders that a GPU may choose, or late, which is another (streams.hpp). Fresh memory is filled with NaN. Streams that capture keep what
// they are given for graphs, and refuse what CUDA's would refuse, and copies from memory that is not page-locked, which would be read when the graph runs.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <vector>

#include "machine.hpp"
#include "streams.hpp"

enum cudaError_t { cudaSuccess = 0, cudaErrorMemoryAllocation = 2, cudaErrorInvalidConfiguration = 9, cudaErrorNotReady = 600, cudaErrorLaunchFailure = 719, cudaErrorStreamCaptureUnsupported = 900, cudaErrorStreamCaptureUnjoined = 904, cudaErrorStreamCaptureIsolation = 905 };
inline const char* cudaGetErrorString(cudaError_t e) {
  if (e == cudaErrorStreamCaptureUnsupported) return "operation not permitted when stream is capturing";
  if (e == cudaErrorStreamCaptureUnjoined) return "capturing stream has unjoined work";
  if (e == cudaErrorStreamCaptureIsolation) return "dependency created on uncaptured work in another stream";
  if (e == cudaErrorInvalidConfiguration) return "invalid configuration argument";
  if (e == cudaErrorLaunchFailure) return on_cpu::why_not().c_str();
  return e == cudaSuccess ? "no error" : "error of the machine on the CPU";
}
inline cudaError_t cudaGetLastError() { return cudaSuccess; }

/// `queue`: of a late stream.
struct CUstream_st { std::shared_ptr<on_cpu::Queue> queue; };
typedef CUstream_st* cudaStream_t;
/// A place among a stream's work.
struct OnCpuMark { bool reached = false; double at = 0; };
/// `captured`: recorded by a capture, whose stream had been given `nodes` pieces of work by then.
struct CUevent_st { std::shared_ptr<OnCpuMark> mark; bool captured = false; cudaStream_t stream = nullptr; std::size_t nodes = 0; };
typedef CUevent_st* cudaEvent_t;

// ---- graphs: what capturing streams are given, in order of issue

inline void on_cpu_free(void* p);
struct CUgraph_st {
  std::vector<std::function<void()>> nodes;
  std::vector<void*> blocks;   ///< Memory of its own.
  ~CUgraph_st() {
    for (void* b : blocks) on_cpu_free(b);
  }
};
typedef std::shared_ptr<CUgraph_st>* cudaGraph_t;
typedef std::shared_ptr<CUgraph_st>* cudaGraphExec_t;
struct OnCpuCapture {
  std::shared_ptr<CUgraph_st> graph;
  cudaStream_t origin = nullptr;
  std::map<cudaStream_t, std::size_t> streams;   ///< How much each has been given.
  std::map<cudaStream_t, std::size_t> joined;    ///< How much of that the origin waits for.
};
inline thread_local OnCpuCapture on_cpu_capture;
inline bool on_cpu_captures(cudaStream_t s) { return on_cpu_capture.graph != nullptr && on_cpu_capture.streams.count(s) > 0; }
/// Null where the stream runs at once.
inline std::shared_ptr<on_cpu::Queue> on_cpu_queue(cudaStream_t s) { return s != nullptr ? s->queue : on_cpu::queue_of_null_stream(); }
inline cudaError_t on_cpu_status(bool good) { return good ? cudaSuccess : cudaErrorLaunchFailure; }
/// Now, later, or as part of the graph.
inline cudaError_t on_cpu_do(cudaStream_t s, std::function<void()> work) {
  if (!on_cpu_captures(s)) {
    if (const auto queue = on_cpu_queue(s))
      queue->push_back({[work = std::move(work)] { return work(), true; }, {}});
    else
      work();
    return cudaSuccess;
  }
  ++on_cpu_capture.streams[s];
  on_cpu_capture.graph->nodes.push_back(std::move(work));
  return cudaSuccess;
}
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed };
inline cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode) {
  if (on_cpu_capture.graph != nullptr) return cudaErrorStreamCaptureUnsupported;
  on_cpu_capture = {std::make_shared<CUgraph_st>(), s, {{s, 0}}, {}};
  return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* out) {
  OnCpuCapture done = std::move(on_cpu_capture);
  on_cpu_capture = {};
  *out = nullptr;
  if (done.graph == nullptr || done.origin != s) return cudaErrorStreamCaptureUnsupported;
  for (const auto& [stream, given] : done.streams)
    if (stream != s && given > 0 && done.joined[stream] < given) return cudaErrorStreamCaptureUnjoined;
  *out = new std::shared_ptr<CUgraph_st>(std::move(done.graph));
  return cudaSuccess;
}
enum { cudaGraphInstantiateFlagUseNodePriority = 8 };
inline cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long) { *out = new std::shared_ptr<CUgraph_st>(*graph); return cudaSuccess; }
inline cudaError_t cudaGraphDestroy(cudaGraph_t g) { delete g; return cudaSuccess; }
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t g) { delete g; return cudaSuccess; }
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t g, cudaStream_t s) {
  if (on_cpu_captures(s)) return cudaErrorStreamCaptureUnsupported;
  if (on_cpu::graph_launches_without_memory > 0) return --on_cpu::graph_launches_without_memory, cudaErrorMemoryAllocation;
  return on_cpu_do(s, [graph = *g] {
    for (const auto& node : graph->nodes) node();
  });
}

// ---- streams and events

enum { cudaEventDefault = 0, cudaEventDisableTiming = 2, cudaStreamNonBlocking = 1 };
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) { *s = new CUstream_st{on_cpu::queue_of_new_stream()}; return cudaSuccess; }
inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t* s, unsigned f, int) { return cudaStreamCreateWithFlags(s, f); }
inline cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) { *least = 0, *greatest = -1; return cudaSuccess; }
inline cudaError_t cudaStreamDestroy(cudaStream_t s) { delete s; return cudaSuccess; }
inline double on_cpu_seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
/// Reached once the stream has done what it was given so far.
inline std::shared_ptr<OnCpuMark> on_cpu_mark(cudaStream_t s) {
  auto mark = std::make_shared<OnCpuMark>();
  const auto reach = [mark] { mark->at = on_cpu_seconds(), mark->reached = true; };
  if (const auto queue = on_cpu_captures(s) ? nullptr : on_cpu_queue(s))
    queue->push_back({[reach] { return reach(), true; }, {}});
  else
    reach();
  return mark;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  if (on_cpu_captures(s)) return cudaErrorStreamCaptureUnsupported;
  if (on_cpu_queue(s) == nullptr) return cudaSuccess;
  return on_cpu_status(on_cpu::run_until([mark = on_cpu_mark(s)] { return mark->reached; }, "a stream"));
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  if (!e->captured) {
    if (on_cpu_captures(s)) return cudaErrorStreamCaptureIsolation;
    if (const auto queue = on_cpu_queue(s); queue != nullptr && e->mark != nullptr) queue->push_back({[mark = e->mark] { return mark->reached; }, {}});
    return cudaSuccess;
  }
  OnCpuCapture& c = on_cpu_capture;
  if (c.graph == nullptr) return cudaErrorStreamCaptureIsolation;
  c.streams.try_emplace(s, 0);
  if (s == c.origin) c.joined[e->stream] = e->nodes;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() { return on_cpu_capture.graph != nullptr ? cudaErrorStreamCaptureUnsupported : on_cpu_status(on_cpu::run_all("the device")); }
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }

inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) { *e = new CUevent_st; return cudaSuccess; }
inline cudaError_t cudaEventCreate(cudaEvent_t* e) { return cudaEventCreateWithFlags(e, 0); }
inline cudaError_t cudaEventDestroy(cudaEvent_t e) { delete e; return cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  *e = {on_cpu_mark(s), on_cpu_captures(s), s, on_cpu_captures(s) ? on_cpu_capture.streams[s] : 0};
  return cudaSuccess;
}
inline bool on_cpu_reached(cudaEvent_t e) { return e->mark == nullptr || e->mark->reached; }
inline cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  if (e->captured) return cudaErrorStreamCaptureUnsupported;
  return on_cpu_reached(e) ? cudaSuccess : on_cpu_status(on_cpu::run_until([mark = e->mark] { return mark->reached; }, "an event"));
}
inline cudaError_t cudaEventQuery(cudaEvent_t e) { return e->captured ? cudaErrorStreamCaptureUnsupported : on_cpu_reached(e) ? cudaSuccess : cudaErrorNotReady; }
inline cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t a, cudaEvent_t b) {
  if (!on_cpu_reached(a) || !on_cpu_reached(b)) return cudaErrorNotReady;
  *ms = static_cast<float>((b->mark->at - a->mark->at) * 1e3);
  return cudaSuccess;
}

// ---- memory

enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault };
/// Blocks of the device and of page-locked memory, by where they begin.
struct OnCpuBlocks {
  std::mutex mutex;
  std::map<const char*, std::size_t> bytes;
  bool holds(const void* p, std::size_t n = 1) {
    const std::lock_guard lock(mutex);
    const auto after = bytes.upper_bound(static_cast<const char*>(p));
    return after != bytes.begin() && static_cast<const char*>(p) + n <= std::prev(after)->first + std::prev(after)->second;
  }
  /// All of it that kernels may read.
  void resize(const void* p, std::size_t n) {
    const std::lock_guard lock(mutex);
    bytes[static_cast<const char*>(p)] = n;
  }
};
inline OnCpuBlocks on_cpu_blocks;
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t n, cudaMemcpyKind, cudaStream_t s) {
  ++on_cpu::issued.copies;
  if (!on_cpu::settings().moves) return cudaSuccess;
  if (on_cpu_captures(s) && !(on_cpu_blocks.holds(to) && on_cpu_blocks.holds(from))) return cudaErrorStreamCaptureUnsupported;
  if (on_cpu_captures(s) || on_cpu_queue(s) == nullptr || on_cpu_blocks.holds(from)) {
    (void)on_cpu_do(s, [=] { std::memmove(to, from, n); });
    // Memory of the host's that is not page-locked is there when the call returns,
    return on_cpu_captures(s) || on_cpu_blocks.holds(to) ? cudaSuccess : cudaStreamSynchronize(s);
  }
  // and read before: the driver copies it.
  const auto* first = static_cast<const char*>(from);
  return on_cpu_do(s, [to, copy = std::vector<char>(first, first + n)] { std::memcpy(to, copy.data(), copy.size()); });
}
/// On the null stream, which those of the product do not wait for. From memory that is not page-locked it may return before all has arrived.
inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t n, cudaMemcpyKind kind) {
  const cudaError_t status = cudaMemcpyAsync(to, from, n, kind, nullptr);
  return status == cudaSuccess && on_cpu_blocks.holds(from) ? cudaStreamSynchronize(nullptr) : status;
}
inline cudaError_t cudaMemsetAsync(void* to, int value, std::size_t n, cudaStream_t s) {
  ++on_cpu::issued.fills;
  if (!on_cpu::settings().moves) return cudaSuccess;
  return on_cpu_do(s, [=] { std::memset(to, value, n); });
}
inline cudaError_t cudaMemset2DAsync(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height, cudaStream_t s) {
  ++on_cpu::issued.fills;
  if (!on_cpu::settings().moves) return cudaSuccess;
  return on_cpu_do(s, [=] {
    for (std::size_t row = 0; row < height; ++row) std::memset(static_cast<char*>(to) + row * pitch, value, width);
  });
}
inline cudaError_t cudaMalloc(void** p, std::size_t n) {
  *p = std::aligned_alloc(256, (n + 255) / 256 * 256);
  if (*p == nullptr) return cudaErrorMemoryAllocation;
  // Large ones are workspaces: their beginning is enough.
  constexpr std::size_t kFilled = std::size_t{1} << 20;
  if (on_cpu::settings().moves) std::memset(*p, 0xff, n < kFilled ? n : kFilled);
  const std::lock_guard lock(on_cpu_blocks.mutex);
  on_cpu_blocks.bytes[static_cast<const char*>(*p)] = n;
  return cudaSuccess;
}
inline void on_cpu_free(void* p) {
  const std::lock_guard lock(on_cpu_blocks.mutex);
  on_cpu_blocks.bytes.erase(static_cast<const char*>(p));
  std::free(p);
}
/// Waits for the device.
inline cudaError_t cudaFree(void* p) {
  if (p == nullptr) return cudaSuccess;
  const bool good = on_cpu::run_all("the device, to free memory");
  on_cpu_free(p);
  return on_cpu_status(good);
}
inline cudaError_t cudaMallocHost(void** p, std::size_t n) { return cudaMalloc(p, n); }
inline cudaError_t cudaFreeHost(void* p) { return cudaFree(p); }
inline cudaError_t cudaMemGetInfo(std::size_t* left, std::size_t* all) { *left = *all = std::size_t{16} << 30; return cudaSuccess; }
enum cudaMemoryType { cudaMemoryTypeHost = 1, cudaMemoryTypeDevice = 2 };
struct cudaPointerAttributes { cudaMemoryType type; };
inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* a, const void*) { a->type = cudaMemoryTypeDevice; return cudaSuccess; }

enum { cudaMemAllocationTypePinned = 1, cudaMemLocationTypeDevice = 1 };
struct cudaMemPoolProps { int allocType; struct { int type, id; } location; };
/// `orders_streams`: may make a stream wait for another to reuse its memory, as pools do unless told not to.
struct CUmemPoolHandle_st { std::uint64_t used = 0, high = 0; bool orders_streams = true; };
typedef CUmemPoolHandle_st* cudaMemPool_t;
enum cudaMemPoolAttr { cudaMemPoolAttrReleaseThreshold, cudaMemPoolReuseAllowInternalDependencies, cudaMemPoolAttrUsedMemCurrent, cudaMemPoolAttrUsedMemHigh };
inline cudaError_t cudaMemPoolCreate(cudaMemPool_t* p, const cudaMemPoolProps*) { *p = new CUmemPoolHandle_st; return cudaSuccess; }
inline cudaError_t cudaMemPoolDestroy(cudaMemPool_t p) { delete p; return cudaSuccess; }
inline cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t p, cudaMemPoolAttr what, void* value) {
  if (what == cudaMemPoolReuseAllowInternalDependencies) p->orders_streams = *static_cast<int*>(value) != 0;
  return cudaSuccess;
}
inline cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t p, cudaMemPoolAttr what, void* value) {
  *static_cast<std::uint64_t*>(value) = what == cudaMemPoolAttrUsedMemHigh ? p->high : p->used;
  return cudaSuccess;
}
inline cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, std::size_t) { return cudaSuccess; }
enum cudaGraphMemAttributeType { cudaGraphMemAttrUsedMemHigh = 1 };
inline cudaError_t cudaDeviceGetGraphMemAttribute(int, cudaGraphMemAttributeType, void* value) { *static_cast<std::uint64_t*>(value) = 0; return cudaSuccess; }
inline cudaError_t cudaDeviceGraphMemTrim(int) { return cudaSuccess; }
/// The block's size and pool lie before it; behind it are bytes that nobody may write.
struct alignas(256) OnCpuBlock { std::size_t bytes; cudaMemPool_t pool; };
inline constexpr std::size_t kOnCpuFence = 256;
inline constexpr unsigned char kOnCpuFenceByte = 0xa5;
inline void on_cpu_check_fence(const void* p, std::size_t bytes) {
  for (std::size_t i = 0; i < kOnCpuFence; ++i)
    if (static_cast<const unsigned char*>(p)[bytes + i] != kOnCpuFenceByte) {
      std::fprintf(stderr, "a kernel or copy wrote beyond its memory of %zu bytes\n", bytes);
      std::abort();
    }
}
/// Blocks that a capture takes are the graph's, at the same place in every launch; each begins as NaN and is NaN after it was given back.
inline cudaError_t cudaMallocFromPoolAsync(void** p, std::size_t n, cudaMemPool_t pool, cudaStream_t s) {
  if (pool->orders_streams) throw std::logic_error("memory of a pool that may make streams wait for each other");
  void* block = nullptr;
  if (const cudaError_t failed = cudaMalloc(&block, n + sizeof(OnCpuBlock) + kOnCpuFence); failed != cudaSuccess) return failed;
  const bool captured = on_cpu_captures(s);
  on_cpu_blocks.resize(block, n + sizeof(OnCpuBlock));
  new (block) OnCpuBlock{n, captured ? nullptr : pool};
  void* const data = static_cast<char*>(block) + sizeof(OnCpuBlock);
  *p = data;
  std::memset(static_cast<char*>(data) + n, kOnCpuFenceByte, kOnCpuFence);
  if (captured) {
    on_cpu_capture.graph->blocks.push_back(block);
    return on_cpu_do(s, [=] { std::memset(data, 0xff, n); });
  }
  pool->used += n;
  if (pool->used > pool->high) pool->high = pool->used;
  return cudaSuccess;
}
inline cudaError_t cudaFreeAsync(void* p, cudaStream_t s) {
  auto* block = reinterpret_cast<OnCpuBlock*>(static_cast<char*>(p) - sizeof(OnCpuBlock));
  const std::size_t n = block->bytes;
  if ((block->pool == nullptr) != on_cpu_captures(s)) {
    std::fprintf(stderr, "memory of a graph and of streams is mixed up\n");
    std::abort();
  }
  if (block->pool == nullptr)
    return on_cpu_do(s, [=] {
      on_cpu_check_fence(p, n);
      std::memset(p, 0xff, n);
    });
  block->pool->used -= n;
  return on_cpu_do(s, [=] {
    on_cpu_check_fence(p, n);
    if (on_cpu::settings().moves) std::memset(p, 0xff, n);  // Whoever still uses it will notice.
    on_cpu_free(block);
  });
}
