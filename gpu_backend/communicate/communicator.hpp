#pragma once
// Communication between ranks, as the executor asks for it: asynchronous, on packed buffers, in the order of issue of
// each stream.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/program/task.hpp"
#include "gpu_backend/execute/device.hpp"

namespace rehearse {

/// One collective of one member. Buffers stay valid until it is done.
///   all_reduce      `receive` in place, receive_counts[0] elements
///   broadcast       `receive` in place, from member `root`
///   reduce_scatter  `send` holds a part for every member, in order; `receive` gets the sum of this member's
///   all_gather      `send` is this member's part; `receive` gets every member's, in order
///   all_to_all      a part for every member in `send`, from every member in `receive`
/// A reduction gives every member the same bits.
struct CollectiveCall {
  CollectiveOp op = CollectiveOp::all_reduce;
  ReduceOp reduce = ReduceOp::sum;
  ElementType type = ElementType::real32;
  int root = 0;
  const std::byte* send = nullptr;
  std::byte* receive = nullptr;
  std::vector<std::int64_t> send_counts;  ///< Elements per member.
  std::vector<std::int64_t> receive_counts;
  std::string name;  ///< Task, for messages.
};

/// One group on one stream. All members make the same calls in the same order.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual void start(CollectiveCall call, Done done) = 0;
};

/// One end of the messages from one rank to another along one edge: received in the order sent.
class Channel {
 public:
  virtual ~Channel() = default;
  /// `label` identifies the message; the receiver's must be equal.
  virtual void send(const std::byte* data, std::size_t bytes, std::uint64_t label, Done done) = 0;
  virtual void receive(std::byte* data, std::size_t bytes, std::uint64_t label, Done done) = 0;
};

/// The ranks of a run, seen from one of them. Failures of other ranks end every call with Error (check_failed) that
/// names rank and cause.
class Transport {
 public:
  virtual ~Transport() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int ranks() const = 0;
  /// `members` are ranks in the order of the group. The same name and members give the same communicator on all of
  /// them.
  [[nodiscard]] virtual std::unique_ptr<Communicator> communicator(const std::string& name,
                                                                   const std::vector<int>& members) = 0;
  [[nodiscard]] virtual std::unique_ptr<Channel> channel(const std::string& name, int from, int to) = 0;
  /// Reduces numbers in host memory over all ranks, beside whatever else goes on.
  [[nodiscard]] virtual std::unique_ptr<Communicator> control(const std::string& name);
  /// Called on all ranks once each has asked for its communicators and channels, before the first call of any.
  virtual void ready() {}
  /// Whether calls only enqueue on the stream of the task that makes them, so that a device can record them.
  [[nodiscard]] virtual bool enqueues() const { return false; }
  /// Sums over all ranks, outside the Program: losses, counts, votes. Blocks.
  virtual void sum(std::vector<double>& values) = 0;
  /// Tells the others that this rank has failed, and why.
  virtual void fail(const std::string& cause) noexcept = 0;
};

}  // namespace rehearse
