#pragma once
// Memory of one GPU and pinned memory of its host, for the storage of tensors.

#include <cuda_runtime_api.h>

#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "core/base/units.hpp"
#include "gpu_backend/execute/device.hpp"

namespace rehearse::cuda {

/// An event of CUDA's; events are pooled, because each task has one.
class EventPool {
 public:
  explicit EventPool(unsigned flags) : flags_(flags) {}
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;
  [[nodiscard]] cudaEvent_t take();
  void give_back(cudaEvent_t event) { free_.push_back(event); }

 private:
  unsigned flags_;
  std::vector<cudaEvent_t> free_;
};

/// Work on a stream: what other streams, storage and the host wait for.
struct Item final : Event {
  std::shared_ptr<EventPool> plain, timed;
  cudaStream_t stream = nullptr;
  int number = 0;                          ///< Of the stream.
  cudaEvent_t end = nullptr;               ///< Without times, unless they are measured.
  cudaEvent_t begin = nullptr;             ///< Where they are measured.
  const Recording* recorded_by = nullptr;  ///< Whose part it is; null: it was done.
  ~Item() override;
};
using ItemPtr = std::shared_ptr<Item>;

/// A pool of device memory whose blocks are taken and given back on streams: what the Program frees at a task is there
/// for tasks issued later, without the host waiting. All of it stays with the process, so that steps after the first
/// take none from the driver.
class DeviceMemory {
 public:
  DeviceMemory(int device, Bytes limit);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  /// Throws OutOfMemory once nothing is left, also after unused memory was returned to the driver.
  [[nodiscard]] void* take(std::size_t bytes, cudaStream_t stream);
  void give_back(void* block, std::size_t bytes, cudaStream_t stream) noexcept;
  /// What is thrown where `bytes` more could not be taken. 0: by a graph, which does not say how much it wants.
  [[nodiscard]] OutOfMemory none_left(std::size_t bytes) const;
  /// Returns unused memory to the driver. Waits for the device: no stream may be capturing.
  void trim();
  [[nodiscard]] Bytes used() const;
  /// Blocks that were out at once, and what graphs took beside them.
  [[nodiscard]] Bytes peak() const;
  [[nodiscard]] Bytes capacity() const { return capacity_; }

 private:
  [[nodiscard]] Bytes attribute(cudaMemPoolAttr what) const;
  int device_;
  cudaMemPool_t pool_ = nullptr;
  Bytes capacity_, limit_;
  double asked_ = 0;  ///< Bytes of blocks that are out.
};

/// Page-locked host memory, which copies overlap with. A block is used again once all that used it is done.
class PinnedMemory {
 public:
  ~PinnedMemory();
  [[nodiscard]] std::byte* take(std::size_t bytes);
  void give_back(std::byte* block, std::size_t bytes, std::vector<ItemPtr> users);

 private:
  struct Idle {
    std::byte* block;
    std::vector<ItemPtr> users;
  };
  std::multimap<std::size_t, Idle> idle_;
};

}  // namespace rehearse::cuda
