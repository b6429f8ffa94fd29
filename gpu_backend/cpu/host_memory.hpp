#pragma once
// Memory of the CPU as a device. What a step gives back is kept for the next one: memory that is new to a process is
// cleared by the system, page by page, when it is first touched.

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "core/base/units.hpp"

namespace rehearse {

/// What the system could give to new processes without swapping (MemAvailable of /proc/meminfo); 0 where it doesn't
/// say.
[[nodiscard]] Bytes available_memory();

/// Blocks, by size. Idle ones are given back to the system, longest idle first, where idle and used memory together
/// would grow past one and a half times the most that was ever in use. Any thread may call.
class HostMemory {
 public:
  HostMemory() = default;
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  /// Sizes are rounded up by at most an eighth, to at least kAlignment: these are the bytes that a block of so many
  /// has.
  [[nodiscard]] static std::size_t rounded(std::size_t bytes);
  /// Aligned to kAlignment; contents undefined. Throws std::bad_alloc.
  [[nodiscard]] std::byte* take(std::size_t bytes);
  /// `bytes` as it was taken.
  void give_back(std::byte* block, std::size_t bytes) noexcept;

  [[nodiscard]] std::size_t used() const;
  [[nodiscard]] std::size_t idle() const;

  static constexpr std::size_t kAlignment = 64;  ///< A cache line.

 private:
  struct Idle {
    std::byte* block;
    std::uint64_t since;
  };
  void release_oldest() noexcept;

  mutable std::mutex mutex_;
  std::multimap<std::size_t, Idle> idle_;  ///< By size; of one size, last given back last.
  std::uint64_t given_back_ = 0;           ///< How often: the clock of `since`.
  std::size_t used_ = 0, most_used_ = 0, idle_bytes_ = 0;
};

/// Tells the C library to keep what is freed, too, where it can be told: temporaries of operators and of the transport.
void keep_freed_memory();

}  // namespace rehearse
