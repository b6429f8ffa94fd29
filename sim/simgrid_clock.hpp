#pragma once
// The play clock on SimGrid: flows share links max-min fairly; timers are ours.
//
// Timers wait in the clock's own queue and only the earliest is known to SimGrid. While no flow is under way SimGrid is not asked at
// all: the clock runs ahead and takes SimGrid along when the next flow starts. Everything due at one date, timers and ends
// of flows, is told in the order in which it was set or started, so a run depends on nothing but its calls.
//
// A flow of several lanes is one SimGrid flow with weights where lane_routes.hpp allows, else one flow per lane, ending with the last.

#include <cstdint>
#include <exception>
#include <vector>

#include "core/backend/event_queue.hpp"
#include "core/backend/lane_routes.hpp"
#include "core/backend/play_clock.hpp"
#include "sim/simgrid_facade.hpp"

namespace rehearse::sim {

/// One at a time in a process. `cluster` must outlive the clock. `bytes` and `cap` of a flow are those of one lane.
class SimGridClock final : public PlayClock, private SimGridFacade::Listener {
 public:
  /// Throws Error (unavailable) while another SimGrid clock lives.
  explicit SimGridClock(const Cluster& cluster);

  [[nodiscard]] Seconds now() const override { return Seconds{now_}; }
  TimerId set_timer(Seconds at, Token token) override;
  void cancel_timer(TimerId id) override { events_.cancel(id); }
  /// Throws std::logic_error for bytes or a cap not above zero, or a route that does not exist.
  void start_flow(DeviceId src, DeviceId dst, Bytes bytes, BytesPerSecond cap, int lanes, int lane_stride, Token token) override;
  /// What the handler throws ends the run: flows under way are played to their end unheard, then it is thrown on.
  void run(Handler& handler) override;
  [[nodiscard]] const std::vector<double>& link_bytes() const override { return link_bytes_; }

 private:
  struct Flow {
    const LaneRoute* route;
    DeviceId src, dst;
    Bytes bytes;
    BytesPerSecond cap;
    int lanes, stride;
    int under_way;  // SimGrid flows not yet ended.
    std::uint64_t sequence;
    Token token;
  };

  void on_wake() override;
  void on_flow_end(std::uint64_t index, bool last) override;
  void dispatch();
  void deliver_due();
  void deliver(const EventQueue::Event& event);
  void start_waiting();
  void start(std::size_t index);

  LaneRoutes routes_;
  SimGridFacade facade_;
  EventQueue events_;                // A flow's payload is its index in flows_.
  std::vector<Flow> flows_;
  std::vector<std::size_t> free_flows_;
  std::vector<std::size_t> waiting_;  // Flows that start at now_, once SimGrid has got there.
  std::size_t under_way_ = 0;        // SimGrid flows.
  std::vector<double> link_bytes_;
  double now_ = 0;
  Handler* handler_ = nullptr;
  std::exception_ptr failure_;
};

}  // namespace rehearse::sim
