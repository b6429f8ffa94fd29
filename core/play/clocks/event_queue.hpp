#pragma once
// Pending events of a play clock, earliest first; events of equal time leave in the order of their sequence numbers.
// A binary heap over pooled slots: no allocation per event once the pool has grown. Cancelling marks the slot; the dead
// entry leaves when it reaches the top, or when dead entries outnumber live ones.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rehearse {

class EventQueue {
 public:
  /// Names an event from push() until it is popped or cancelled; never reused.
  using Id = std::uint64_t;

  struct Event {
    double time = 0;             ///< Seconds.
    std::uint64_t sequence = 0;  ///< Breaks ties of time.
    std::uint64_t payload = 0;   ///< The owner's: a token, or an index.
    bool flow = false;           ///< A flow's end rather than a timer.
  };

  /// The next sequence number; push() with one drawn earlier files an event under the moment it was drawn.
  [[nodiscard]] std::uint64_t next_sequence() { return sequence_++; }
  Id push(const Event& event);
  /// Does nothing for an event that has left.
  void cancel(Id id);
  [[nodiscard]] bool empty() const { return live_ == 0; }
  [[nodiscard]] std::size_t size() const { return live_; }
  /// Time of the earliest event; the queue must not be empty.
  [[nodiscard]] double next_time() const { return heap_.front().time; }
  /// Removes the earliest event; the queue must not be empty.
  Event pop();
  void clear();

 private:
  struct Node {
    double time;
    std::uint64_t sequence;
    std::uint32_t slot;
  };
  struct Slot {
    std::uint64_t payload;
    std::uint32_t generation;
    bool flow;
    bool live;
  };
  /// A type and no function, so that the heap's loops contain it.
  struct Later {
    bool operator()(const Node& a, const Node& b) const {
      return a.time != b.time ? a.time > b.time : a.sequence > b.sequence;
    }
  };
  void pop_node();
  void drop_dead_top();
  void compact();

  std::vector<Node> heap_;  // Its top is always live.
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::size_t live_ = 0;
  std::uint64_t sequence_ = 0;
};

}  // namespace rehearse
