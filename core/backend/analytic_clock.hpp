#pragma once
// The play clock without contention: every flow has its wires to itself.
//
// A flow of `lanes` lanes ends after  bytes / min(cap, solo rate),  the solo rate being the least, over the links of all lanes,
// of link rate / lanes on that link. That is what max-min fair sharing gives the slowest lane when no other flow shares a link,
// so this clock and SimGrid's agree there (to rounding), and this one is a lower bound anywhere else.

#include <vector>

#include "core/backend/event_queue.hpp"
#include "core/backend/lane_routes.hpp"
#include "core/backend/play_clock.hpp"

namespace rehearse {

/// `cluster` must outlive the clock. `bytes` and `cap` of a flow are those of one lane.
class AnalyticClock final : public PlayClock {
 public:
  explicit AnalyticClock(const Cluster& cluster);

  [[nodiscard]] Seconds now() const override { return Seconds{now_}; }
  TimerId set_timer(Seconds at, Token token) override;
  void cancel_timer(TimerId id) override { events_.cancel(id); }
  /// Throws std::logic_error for bytes or a cap not above zero, or a route that does not exist.
  void start_flow(DeviceId src, DeviceId dst, Bytes bytes, BytesPerSecond cap, int lanes, int lane_stride, Token token) override;
  void run(Handler& handler) override;
  [[nodiscard]] const std::vector<double>& link_bytes() const override { return link_bytes_; }

 private:
  struct Flow { const LaneRoute* route; double bytes; Token token; };

  LaneRoutes routes_;
  EventQueue events_;  // A flow's payload is its index in flows_.
  std::vector<Flow> flows_;
  std::vector<std::size_t> free_flows_;
  std::vector<double> link_bytes_;
  double now_ = 0;
};

}  // namespace rehearse
