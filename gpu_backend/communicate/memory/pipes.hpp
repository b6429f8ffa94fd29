#pragma once
// A pipe of bytes from every member of a group to every other, in memory that they share.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu_backend/communicate/communicator.hpp"
#include "gpu_backend/communicate/memory/shared_block.hpp"

namespace rehearse {

/// Values under keys that all members see: `get` waits until somebody has set it.
struct MeetingBoard {
  std::function<void(const std::string& key, const std::string& value)> set;
  std::function<std::string(const std::string& key)> get;
};

class Pipes {
 public:
  struct Sent {
    int to = 0;
    const std::byte* data = nullptr;
    std::size_t bytes = 0;
  };
  struct Received {
    int from = 0;
    std::byte* data = nullptr;
    std::size_t bytes = 0;
  };
  /// How what is received joins what is there.
  struct Reduction {
    ElementType type;
    ReduceOp op;
    /// An element only after the first of `sent` has taken it away: both are the same memory.
    bool behind_sent = false;
  };

  /// What one member of a group of `members` shares.
  [[nodiscard]] static std::size_t shared_bytes(int members);

  /// Member `member` of `members`, who all make one of the same `name`. Waits until all have theirs.
  Pipes(const MeetingBoard& board, const std::string& name, int member, int members);
  ~Pipes();

  /// Sends and receives all of it, whatever the order in which members come to it; returns when `sent` may be written
  /// again. Every member calls it in the same order with sizes that fit; Error (check_failed) where they do not. At
  /// most one message to and from each member. With `reduction` messages are added one after the other, in their order;
  /// else they overwrite.
  void exchange(std::span<const Sent> sent, std::span<const Received> received,
                const std::optional<Reduction>& reduction = std::nullopt);

  [[nodiscard]] int member() const { return member_; }
  [[nodiscard]] int members() const { return members_; }

 private:
  struct Bell;
  struct Pipe;
  class Progress;

  [[nodiscard]] Bell& bell_of(int member) const;
  [[nodiscard]] Pipe pipe(int from, int to) const;
  void ring(int member) const;
  void wait(std::uint32_t seen) const;

  std::string name_;
  int member_, members_;
  std::size_t capacity_;                              ///< Of one pipe.
  std::vector<std::unique_ptr<SharedBlock>> blocks_;  ///< By member: its bell, and the pipes to it.
};

}  // namespace rehearse
