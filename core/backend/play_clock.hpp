#pragma once
// Simulated time and wires as the player (player.hpp) asks for them. Two implementations: the analytic one (an event heap;
// every flow has its route to itself) and SimGrid's (flows share links max-min fairly). Same calls, same rules, so that both
// agree where no link is shared.

#include <cstdint>

#include "core/cluster/cluster.hpp"
#include "core/units/units.hpp"

namespace rehearse {

class PlayClock {
 public:
  using Token = std::uint64_t;
  using TimerId = std::uint64_t;

  /// Told of every timer and flow that completes. Called from run(), never from within set_timer or start_flow.
  class Handler {
   public:
    virtual ~Handler() = default;
    virtual void on_timer(Token token) = 0;
    virtual void on_flow(Token token) = 0;
  };

  virtual ~PlayClock() = default;
  [[nodiscard]] virtual Seconds now() const = 0;
  /// Fires at absolute time `at`, not before now. Timers of equal time fire in the order they were set.
  virtual TimerId set_timer(Seconds at, Token token) = 0;
  /// Forgets a timer that has not fired.
  virtual void cancel_timer(TimerId id) = 0;
  /// `bytes` > 0 from `src` to `dst` (different devices), at most `cap`, over the cluster's route. Latency is not charged: the
  /// caller adds it. `lanes` equal flows run on parallel wires of their own (the rails of a tensor-parallel group) and on any
  /// wire of the route they share they take `lanes` shares: `lane_stride` is the device distance between neighbouring lanes.
  virtual void start_flow(DeviceId src, DeviceId dst, Bytes bytes, BytesPerSecond cap, int lanes, int lane_stride, Token token) = 0;
  /// Runs until nothing is pending.
  virtual void run(Handler& handler) = 0;

  /// Bytes that crossed each link so far, for the physics check; indexed by LinkId.
  [[nodiscard]] virtual const std::vector<double>& link_bytes() const = 0;
};

}  // namespace rehearse
