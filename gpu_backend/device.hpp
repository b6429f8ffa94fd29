#pragma once
// What a Program runs on: memory, streams and operators of one rank. The executor is the same for every device; a device is this
// interface and a table of operators (operator.hpp).

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "gpu_backend/numerics.hpp"
#include "gpu_backend/operator.hpp"

namespace rehearse {

/// Memory of the device. Freed with its last owner; contents are undefined until written.
class Storage {
 public:
  virtual ~Storage() = default;
  /// Address on the device; takes the memory on first call, so that storage that waits for its writer costs nothing yet.
  [[nodiscard]] virtual std::byte* data() = 0;
};

/// Called once, from any thread, when asynchronous work has ended; with the exception it ended with, or null.
using Done = std::function<void(std::exception_ptr)>;

/// What is put on a stream: exactly one of the two.
struct Work {
  std::function<void()> run;         ///< Launches kernels: on a CPU computes before it returns.
  std::function<void(Done)> start;   ///< Communication: starts, and calls `Done` when all is received and sent.
};

/// Begin and end in seconds of the device's clock.
struct Interval { double begin = 0, end = 0; };

/// A submitted piece of work, to wait for.
class Event {
 public:
  virtual ~Event() = default;
};
using EventPtr = std::shared_ptr<Event>;

class ComputeDevice {
 public:
  virtual ~ComputeDevice() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual Numerics numerics() const = 0;
  [[nodiscard]] virtual std::shared_ptr<Storage> allocate(std::size_t bytes) = 0;
  /// Synchronous copies for initial values and checkpoints; nothing that touches the storage may be in flight.
  virtual void write(Storage& to, std::size_t offset, std::span<const std::byte> from) = 0;
  virtual void read(Storage& from, std::size_t offset, std::span<std::byte> to) = 0;

  /// Null where the device has none: a gap.
  [[nodiscard]] virtual const Operator* find(std::string_view name) const = 0;
  /// Appends to a stream (an index into Program::streams). Work begins after everything before it on its stream and after `after`.
  virtual EventPtr submit(int stream, std::span<const EventPtr> after, Work work) = 0;
  /// Returns when the event has ended. Throws what the work, or any work before it, threw.
  virtual void wait(const EventPtr& event) = 0;
  /// Begin and end of work that has ended; nothing where none was measured.
  [[nodiscard]] virtual std::optional<Interval> times(const EventPtr& event) const = 0;
  /// Now, on the clock of `times`.
  [[nodiscard]] virtual double now() const = 0;
};

}  // namespace rehearse
