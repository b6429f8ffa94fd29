#include "gpu_backend/cpu/host_memory.hpp"

#include <algorithm>
#include <bit>
#include <fstream>
#include <limits>
#include <new>
#include <string>

#include <malloc.h>

namespace rehearse {

namespace {

constexpr std::size_t kStepsPerOctave = 8;
constexpr int kLargestKept = 32 << 20;  // glibc takes no more: larger ones are given back.
constexpr int kLargestTop = 1 << 30;
constexpr std::size_t kSpareShare = 2;  // Of the most in use: a half.

std::byte* allocated(std::size_t bytes) {
  return static_cast<std::byte*>(::operator new (bytes, std::align_val_t{HostMemory::kAlignment}));
}
void freed(std::byte* block) { ::operator delete (block, std::align_val_t{HostMemory::kAlignment}); }

}  // namespace

Bytes available_memory() {
  std::ifstream lines("/proc/meminfo");
  for (std::string word; lines >> word;) {
    double kibibytes = 0;
    if (word == "MemAvailable:" && lines >> kibibytes) return Bytes{kibibytes * 1024};
    lines.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return Bytes{};
}

HostMemory::~HostMemory() {
  for (const auto& [bytes, idle] : idle_) freed(idle.block);
}

std::size_t HostMemory::rounded(std::size_t bytes) {
  const std::size_t step = std::max(kAlignment, std::bit_floor(std::max<std::size_t>(1, bytes)) / kStepsPerOctave);
  return (std::max<std::size_t>(1, bytes) + step - 1) / step * step;
}

std::byte* HostMemory::take(std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  const std::lock_guard lock(mutex_);
  used_ += size;
  most_used_ = std::max(most_used_, used_);
  // The last given back: it may still be in a cache.
  if (auto at = idle_.upper_bound(size); at != idle_.begin() && (--at)->first == size) {
    std::byte* block = at->second.block;
    idle_.erase(at);
    idle_bytes_ -= size;
    return block;
  }
  while (!idle_.empty() && used_ + idle_bytes_ > most_used_ + most_used_ / kSpareShare) release_oldest();
  try {
    return allocated(size);
  } catch (const std::bad_alloc&) {
    while (!idle_.empty()) release_oldest();
  }
  try {
    return allocated(size);
  } catch (...) {
    used_ -= size;
    throw;
  }
}

void HostMemory::give_back(std::byte* block, std::size_t bytes) noexcept {
  const std::size_t size = rounded(bytes);
  const std::lock_guard lock(mutex_);
  used_ -= size;
  try {
    idle_.emplace(size, Idle{block, given_back_++});
    idle_bytes_ += size;
  } catch (const std::bad_alloc&) {  // No room to remember it.
    freed(block);
  }
}

void HostMemory::release_oldest() noexcept {
  const auto at = std::min_element(idle_.begin(), idle_.end(),
                                   [](const auto& a, const auto& b) { return a.second.since < b.second.since; });
  idle_bytes_ -= at->first;
  freed(at->second.block);
  idle_.erase(at);
}

std::size_t HostMemory::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}
std::size_t HostMemory::idle() const {
  const std::lock_guard lock(mutex_);
  return idle_bytes_;
}

void keep_freed_memory() {
  (void)mallopt(M_MMAP_THRESHOLD, kLargestKept);
  (void)mallopt(M_TRIM_THRESHOLD, kLargestTop);
}

}  // namespace rehearse
