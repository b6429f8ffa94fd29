#pragma once
// What a Program runs on: memory, streams and operators of one rank. The executor is the same for every device; a
// device is this interface and a table of operators (operator.hpp).

#include <algorithm>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/units.hpp"
#include "core/program/tensor.hpp"
#include "gpu_backend/execute/element_range.hpp"
#include "gpu_backend/execute/fuse/fusion.hpp"
#include "gpu_backend/execute/numerics.hpp"
#include "gpu_backend/execute/operator.hpp"

namespace rehearse {

/// Thrown by a device that has no memory left; the executor says what the plan expected (out_of_memory.hpp).
struct OutOfMemory : Error {
  OutOfMemory(const std::string& what, Bytes asked_for, Bytes taken, Bytes all)
      : Error(ErrorKind::infeasible, what), asked(asked_for), in_use(taken), capacity(all) {}
  Bytes asked, in_use, capacity;  ///< The allocation that failed; what this process holds; what the device has.
};

/// Memory of the device. Freed with its last owner; contents are undefined until written.
class Storage {
 public:
  virtual ~Storage() = default;
  /// Address on the device; takes the memory on first call, so that storage that waits for its writer costs nothing
  /// yet.
  [[nodiscard]] virtual std::byte* data() = 0;
};

/// Called once, from any thread, when asynchronous work has ended; with the exception it ended with, or null.
using Done = std::function<void(std::exception_ptr)>;

/// What is put on a stream: exactly one of the two.
struct Work {
  std::function<void()> run;        ///< Launches kernels: on a CPU computes before it returns.
  std::function<void(Done)> start;  ///< Communication: starts, and calls `Done` when all is received and sent.
  std::string_view name = {};       ///< Of the task, for messages and ranges in profilers; outlives the work.
};

/// Begin and end in seconds of the device's clock.
struct Interval {
  double begin = 0, end = 0;
};

/// Seconds on the host's clock, which only goes forward.
[[nodiscard]] double host_seconds();

/// A submitted piece of work, to wait for.
class Event {
 public:
  virtual ~Event() = default;
};
using EventPtr = std::shared_ptr<Event>;

/// Work that was recorded instead of done, to be done again and again by replay(). Goes before its device, and before
/// communicators that it calls.
class Recording {
 public:
  virtual ~Recording() = default;
};

class ComputeDevice {
 public:
  virtual ~ComputeDevice() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual Numerics numerics() const = 0;
  [[nodiscard]] virtual std::shared_ptr<Storage> allocate(std::size_t bytes) = 0;
  /// Synchronous copies for initial values and checkpoints; nothing that touches the storage may be in flight.
  virtual void write(Storage& to, std::size_t offset, std::span<const std::byte> from) = 0;
  virtual void read(Storage& from, std::size_t offset, std::span<std::byte> to) = 0;
  /// Writes `bytes` zeros from the beginning.
  virtual void clear(Storage& to, std::size_t bytes) { write(to, 0, std::vector<std::byte>(bytes)); }
  /// Memory of another space; a device whose memory is the host's has one kind.
  [[nodiscard]] virtual std::shared_ptr<Storage> allocate(std::size_t bytes, MemorySpace) { return allocate(bytes); }

  // Within the work of a task: on its stream, with addresses that Storage::data() gave.
  /// Runs an operator.
  virtual void execute(const Operator& op, OperatorCall& call) { op(call, numerics()); }
  /// Runs one of its fusions.
  virtual void execute(const Fusion& how, std::span<FusedCall> calls) { how.run(calls); }
  /// Before the first step, for each of its calls: loads what the operator will launch. In a step that could wait for
  /// work that waits for another rank. Operands have no addresses yet.
  virtual void prepare(const Operator&, OperatorCall&) {}
  /// Host memory to an operand; `from` may change on return.
  virtual void put(std::byte* to, std::span<const std::byte> from) { std::copy(from.begin(), from.end(), to); }
  /// Between two operands, of any spaces.
  virtual void copy(std::byte* to, const std::byte* from, std::size_t bytes) { std::copy_n(from, bytes, to); }
  /// Blocks of `from` one after the other to `to`, and back; both return the place after the last.
  virtual std::byte* pack_blocks(const std::byte* from, const ElementRanges& blocks, ElementType type, std::byte* to);
  virtual const std::byte* unpack_blocks(const std::byte* from, const ElementRanges& blocks, ElementType type,
                                         std::byte* to);
  /// Divides `n` real numbers.
  virtual void divide(std::byte* data, std::int64_t n, ElementType type, double by) {
    divide_on_host(data, n, type, by);
  }
  /// An operand to host memory, after all before it; for tools and tests.
  virtual void peek(const std::byte* from, std::span<std::byte> to) { std::copy_n(from, to.size(), to.data()); }
  static void divide_on_host(std::byte* data, std::int64_t n, ElementType type, double by);

  /// Null where the device has none: a gap.
  [[nodiscard]] virtual const Operator* find(std::string_view name) const = 0;
  /// What it does as one call.
  [[nodiscard]] virtual std::span<const Fusion> fusions() const { return {}; }
  /// Appends to a stream (an index into Program::streams). Work begins after everything before it on its stream and
  /// after `after`.
  virtual EventPtr submit(int stream, std::span<const EventPtr> after, Work work) = 0;
  /// Returns when the event has ended. Throws what the work, or any work before it, threw.
  virtual void wait(const EventPtr& event) = 0;
  /// Whether `submit` returns before work has begun: then the host runs ahead of the device, and measuring costs time
  /// on it.
  [[nodiscard]] virtual bool queues() const { return false; }
  /// Whether begin and end of work submitted from now on are measured. A device where that costs nothing always does.
  virtual void measure(bool) {}
  /// Why this device cannot record work and replay it; empty where it can.
  [[nodiscard]] virtual std::string records_nothing_because() const {
    return "device '" + name() + "' issues every task";
  }
  /// Records what `issue` submits; none of it runs. Storage that is first used in it belongs to the recording and must
  /// be given up in it. `issue` may not wait, read or write, and what it submits may not need numbers on the host.
  /// Throws what `issue` throws, and Error (check_failed).
  [[nodiscard]] virtual std::unique_ptr<Recording> record(const std::function<void()>& issue);
  /// Does it all once more, as step `step`, after whatever was submitted before and before whatever is submitted later.
  virtual EventPtr replay(Recording& recording, std::int64_t step);
  /// Begin and end of work that has ended; nothing where none was measured.
  [[nodiscard]] virtual std::optional<Interval> times(const EventPtr& event) const = 0;
  /// Now, on the clock of `times`.
  [[nodiscard]] virtual double now() const = 0;
};

}  // namespace rehearse
