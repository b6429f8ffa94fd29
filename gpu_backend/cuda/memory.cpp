#include "gpu_backend/cuda/memory.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "gpu_backend/cuda/check.hpp"

namespace rehearse::cuda {

EventPool::~EventPool() {
  for (const cudaEvent_t e : free_) cudaEventDestroy(e);
}

cudaEvent_t EventPool::take() {
  if (free_.empty()) {
    cudaEvent_t made = nullptr;
    REHEARSE_CUDA(cudaEventCreateWithFlags(&made, flags_));
    return made;
  }
  const cudaEvent_t out = free_.back();
  free_.pop_back();
  return out;
}

Item::~Item() {
  if (end != nullptr) (begin != nullptr ? timed : plain)->give_back(end);
  if (begin != nullptr) timed->give_back(begin);
}

DeviceMemory::DeviceMemory(int device, Bytes limit) : device_(device), limit_(limit) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  REHEARSE_CUDA(cudaMemPoolCreate(&pool_, &properties));
  std::uint64_t keep = ~std::uint64_t{0};
  REHEARSE_CUDA(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep));
  std::size_t left = 0, all = 0;
  REHEARSE_CUDA(cudaMemGetInfo(&left, &all));
  capacity_ = Bytes{static_cast<double>(all)};
  // Else a pool near its end would make streams wait for each other, which no plan knows of.
  int never = 0;
  REHEARSE_CUDA(cudaMemPoolSetAttribute(pool_, cudaMemPoolReuseAllowInternalDependencies, &never));
}

DeviceMemory::~DeviceMemory() { cudaMemPoolDestroy(pool_); }

void* DeviceMemory::take(std::size_t bytes, cudaStream_t stream) {
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  if (limit_ > Bytes{0} && asked_ + static_cast<double>(size) > limit_.value()) throw none_left(size);
  void* out = nullptr;
  cudaError_t status = cudaMallocFromPoolAsync(&out, size, pool_, stream);
  if (status == cudaErrorMemoryAllocation) {
    // What streams and graphs still hold comes back, and fragments with it.
    (void)cudaGetLastError();
    trim();
    status = cudaMallocFromPoolAsync(&out, size, pool_, stream);
  }
  if (status == cudaErrorMemoryAllocation) throw none_left(size);
  check(status, "cudaMallocFromPoolAsync");
  asked_ += static_cast<double>(size);
  return out;
}

OutOfMemory DeviceMemory::none_left(std::size_t bytes) const {
  (void)cudaGetLastError();
  const Bytes asked{static_cast<double>(bytes)};
  return OutOfMemory(fmt::format("{} of device memory wanted, {} of {} in use",
                                 bytes > 0 ? to_string_iec(asked) : "a recorded step's share", to_string_iec(used()),
                                 to_string_iec(capacity_)),
                     asked, used(), capacity_);
}

void DeviceMemory::give_back(void* block, std::size_t bytes, cudaStream_t stream) noexcept {
  asked_ -= static_cast<double>(std::max<std::size_t>(bytes, 1));
  // The process is ending or the device has failed.
  if (cudaFreeAsync(block, stream) != cudaSuccess) (void)cudaGetLastError();
}

void DeviceMemory::trim() {
  REHEARSE_CUDA(cudaDeviceSynchronize());
  REHEARSE_CUDA(cudaMemPoolTrimTo(pool_, 0));
  REHEARSE_CUDA(cudaDeviceGraphMemTrim(device_));
}

Bytes DeviceMemory::attribute(cudaMemPoolAttr what) const {
  std::uint64_t value = 0;
  REHEARSE_CUDA(cudaMemPoolGetAttribute(pool_, what, &value));
  return Bytes{static_cast<double>(value)};
}
Bytes DeviceMemory::used() const { return attribute(cudaMemPoolAttrUsedMemCurrent); }
Bytes DeviceMemory::peak() const {
  std::uint64_t graphs = 0;
  REHEARSE_CUDA(cudaDeviceGetGraphMemAttribute(device_, cudaGraphMemAttrUsedMemHigh, &graphs));
  return std::max(attribute(cudaMemPoolAttrUsedMemHigh), used() + Bytes{static_cast<double>(graphs)});
}

PinnedMemory::~PinnedMemory() {
  for (const auto& [bytes, idle] : idle_) cudaFreeHost(idle.block);
}

std::byte* PinnedMemory::take(std::size_t bytes) {
  const auto [first, last] = idle_.equal_range(bytes);
  for (auto at = first; at != last; ++at) {
    const auto done = [](const ItemPtr& item) { return cudaEventQuery(item->end) == cudaSuccess; };
    if (!std::all_of(at->second.users.begin(), at->second.users.end(), done)) continue;
    std::byte* out = at->second.block;
    idle_.erase(at);
    return out;
  }
  (void)cudaGetLastError();
  void* out = nullptr;
  REHEARSE_CUDA(cudaMallocHost(&out, std::max<std::size_t>(bytes, 1)));
  return static_cast<std::byte*>(out);
}

void PinnedMemory::give_back(std::byte* block, std::size_t bytes, std::vector<ItemPtr> users) {
  idle_.emplace(bytes, Idle{block, std::move(users)});
}

}  // namespace rehearse::cuda
