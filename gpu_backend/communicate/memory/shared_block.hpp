#pragma once
// Memory that processes of one machine share. It has no name in any file system: it goes when the last process that
// holds it ends, however that ends.

#include <cstddef>
#include <string>

namespace rehearse {

class SharedBlock {
 public:
  /// New memory, all zeros; pages are taken when they are first touched. Throws Error (unavailable) where the system
  /// gives none.
  explicit SharedBlock(std::size_t bytes);
  /// What another process has made, by its address(). Throws Error (unavailable) where this process cannot reach it:
  /// another machine or container, or another user's.
  explicit SharedBlock(const std::string& address);
  ~SharedBlock();
  SharedBlock(const SharedBlock&) = delete;
  SharedBlock& operator=(const SharedBlock&) = delete;

  [[nodiscard]] std::byte* data() { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// Valid while this lives; of a block that was made here.
  [[nodiscard]] std::string address() const;

 private:
  void map();

  int file_ = -1;
  std::size_t bytes_ = 0;
  std::byte* data_ = nullptr;
};

/// Equal for processes that can reach each other's blocks, as far as the system tells: of one start of one machine, one
/// view of its processes, and one user.
[[nodiscard]] std::string machine_identity();

}  // namespace rehearse
