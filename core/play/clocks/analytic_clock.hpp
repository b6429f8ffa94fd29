#pragma once
// The play clock without contention: every flow has its wires to itself.
//
// A flow of `lanes` lanes ends after  bytes / min(cap, solo rate),  the solo rate being the least, over the links of
// all lanes, of link rate / lanes on that link. That is what max-min fair sharing gives the slowest lane when no other
// flow shares a link, so this clock and SimGrid's agree there (to rounding), and this one is a lower bound anywhere
// else.

#include <vector>

#include "core/play/clocks/event_queue.hpp"
#include "core/play/clocks/lane_routes.hpp"
#include "core/play/clocks/play_clock.hpp"

namespace rehearse {

/// `cluster` must outlive the clock. `bytes` and `cap` of a flow are those of one lane. A bundle is one event: the end
/// of its longest flow.
class AnalyticClock final : public PlayClock {
 public:
  explicit AnalyticClock(const Cluster& cluster);

  [[nodiscard]] Seconds now() const override { return Seconds{now_}; }
  TimerId set_timer(Seconds at, Token token) override;
  void cancel_timer(TimerId id) override { events_.cancel(id); }
  BundleId prepare(std::span<const Flow> flows, int lanes, int lane_stride) override;
  void start(BundleId bundle, Token token) override;
  void run(Handler& handler) override;
  using PlayClock::link_bytes;
  [[nodiscard]] std::vector<double> link_bytes(const std::vector<bool>& from) const override {
    return routes_.link_bytes(from);
  }

 private:
  struct Member {
    const LaneRoute* route;
    double bytes;
  };
  struct Bundle {
    std::vector<Member> members;
    double seconds;
  };
  struct Started {
    BundleId bundle;
    Token token;
  };

  LaneRoutes routes_;
  EventQueue events_;  // Of a bundle under way the payload is its index in started_.
  std::vector<Bundle> bundles_;
  std::vector<Started> started_;
  std::vector<std::size_t> free_;
  double now_ = 0;
};

}  // namespace rehearse
