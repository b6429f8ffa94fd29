#pragma once
// Storage of tensors on a GPU, and what it shares with its device.

#include <algorithm>
#include <memory>
#include <vector>

#include "gpu_backend/cuda/check.hpp"
#include "gpu_backend/cuda/memory.hpp"
#include "gpu_backend/cuda/recording.hpp"

namespace rehearse::cuda {

/// What storage outlives the device's own members by.
struct Shared {
  DeviceMemory memory;
  PinnedMemory pinned;
  std::shared_ptr<EventPool> plain = std::make_shared<EventPool>(cudaEventDisableTiming),
                             timed = std::make_shared<EventPool>(cudaEventDefault);
  cudaStream_t own = nullptr;           ///< For what no task does: initial values, checkpoints.
  ItemPtr current;                      ///< The task that is being issued; null outside of tasks.
  GraphRecording* recording = nullptr;  ///< Where tasks go while a step is recorded.

  Shared(int index, Bytes limit) : memory(index, limit) {
    REHEARSE_CUDA(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
  }
  ~Shared() { cudaStreamDestroy(own); }
};

/// Memory that is taken when a task first uses it, on that task's stream, and given back after all tasks that used it.
class CudaStorage final : public Storage {
 public:
  CudaStorage(std::shared_ptr<Shared> shared, std::size_t bytes, bool on_host)
      : shared_(std::move(shared)), bytes_(bytes), on_host_(on_host) {}
  CudaStorage(const CudaStorage&) = delete;
  CudaStorage& operator=(const CudaStorage&) = delete;
  ~CudaStorage() override {
    if (memory_ == nullptr || (recorded_ && shared_->recording == nullptr)) return;  // The graph's own.
    if (on_host_) {
      shared_->pinned.give_back(memory_, bytes_, std::move(users_));
      return;
    }
    // On the stream that used it last, after the others.
    cudaStream_t stream = shared_->own;
    if (!users_.empty()) stream = users_.back()->stream;
    for (const ItemPtr& user : users_)
      if (user->stream != stream && user->end != nullptr) (void)cudaStreamWaitEvent(stream, user->end, 0);
    shared_->memory.give_back(memory_, bytes_, stream);
  }
  [[nodiscard]] bool on_host() const { return on_host_; }
  std::byte* data() override {
    if (memory_ == nullptr) take();
    if (shared_->current) note(shared_->current);
    return memory_;
  }

 private:
  void take() {
    if (on_host_) {
      memory_ = shared_->pinned.take(bytes_);
      return;
    }
    memory_ = static_cast<std::byte*>(
        shared_->memory.take(bytes_, shared_->current ? shared_->current->stream : shared_->own));
    recorded_ = shared_->recording != nullptr && shared_->current != nullptr;
    if (!shared_->current) REHEARSE_CUDA(cudaStreamSynchronize(shared_->own));
  }
  /// The last task of each stream is enough to wait for.
  void note(const ItemPtr& item) {
    // It was there before the recording and stays: replays wait for all, and all for them.
    if (item->recorded_by != nullptr && !recorded_) return;
    if (!users_.empty() && users_.back() == item) return;
    std::erase_if(users_, [&](const ItemPtr& u) { return u->stream == item->stream; });
    users_.push_back(item);
  }

  std::shared_ptr<Shared> shared_;
  std::size_t bytes_;
  bool on_host_;
  bool recorded_ = false;
  std::byte* memory_ = nullptr;
  std::vector<ItemPtr> users_;
};

}  // namespace rehearse::cuda
