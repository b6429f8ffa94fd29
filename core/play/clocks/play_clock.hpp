#pragma once
// Simulated time and wires as the player (player.hpp) asks for them. Two implementations: the analytic one (an event
// heap; every flow has its route to itself) and SimGrid's (flows share links max-min fairly). Same calls, same rules,
// so that both agree where no link is shared.

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "core/base/units.hpp"
#include "core/cluster/cluster.hpp"

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

  /// One link of a flow that stands for several: it takes `weight` times its rate there.
  struct Crossing {
    LinkId link;
    int weight;
  };
  /// `bytes` > 0 from `src` to `dst` (different devices), at most `cap`, over the cluster's route. Latency is not
  /// charged: the caller adds it. `over`, where given, is what stands for the flow and for all that it stands for where
  /// flows share links, in place of its own links and lanes (core/play/player/alike.hpp); it must last until prepare()
  /// has returned, and link_bytes() leaves such flows out.
  struct Flow {
    DeviceId src, dst;
    Bytes bytes;
    BytesPerSecond cap;
    const std::vector<Crossing>* over = nullptr;
  };
  using BundleId = std::uint32_t;
  /// Flows that start together and are waited for together: a message, or all edges of a collective. Routes and demands
  /// are worked out here, once, however often the bundle is started. `lanes` copies of every flow run on parallel wires
  /// of their own (the rails of a tensor-parallel group) and take `lanes` shares of any wire they share: `lane_stride`
  /// is the device distance between neighbouring lanes. Throws std::logic_error for no flow, bytes or a cap not above
  /// zero, or a route that does not exist.
  virtual BundleId prepare(std::span<const Flow> flows, int lanes, int lane_stride) = 0;
  /// Starts all flows of a bundle; on_flow(token) tells the end of the last. A bundle may be under way several times at
  /// once.
  virtual void start(BundleId bundle, Token token) = 0;
  /// One flow; equal ones are prepared once.
  void start_flow(DeviceId src, DeviceId dst, Bytes bytes, BytesPerSecond cap, int lanes, int lane_stride, Token token);
  /// The only links that flows will cross, told before the first of them. A clock may save what others cost.
  virtual void keep_to(const std::vector<LinkId>& /*links*/) {}
  /// Runs until nothing is pending.
  virtual void run(Handler& handler) = 0;

  /// Bytes that crossed each link in flows that have ended, for the physics check; indexed by LinkId. Added up when
  /// asked for. `from`: flows of these senders alone, by DeviceId; empty for all.
  [[nodiscard]] virtual std::vector<double> link_bytes(const std::vector<bool>& from) const = 0;
  [[nodiscard]] std::vector<double> link_bytes() const { return link_bytes({}); }

 private:
  std::map<std::tuple<DeviceId, DeviceId, double, double, int, int>, BundleId> single_;
};

}  // namespace rehearse
