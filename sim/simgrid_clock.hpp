#pragma once
// The play clock on SimGrid: flows share links max-min fairly; timers are ours, and flows that are in nobody's way.
//
// A flow runs at its demand, as an event of our own, until one of its links is asked for more than it can give: then it
// and all that cross that link go to SimGrid with the bytes they have left, and stay there. link_loads.hpp proves that
// this changes no rate.
//
// Events wait in the clock's own queue and only the earliest is known to SimGrid. While SimGrid has no flow it is not
// asked at all: the clock runs ahead and takes SimGrid along when the next flow goes there. Everything due at one date,
// timers and ends of flows, is told in the order in which it was set or started, so a run depends on nothing but its
// calls. Flows start when all that is due at their date is told, all at once.
//
// A flow of several lanes is one transfer with weights where lane_routes.hpp allows, else one per lane, ending with the
// last. Transfers of a bundle that would take equally long alone are one unit while they are free: one event, and one
// booking per link (the sum of what they ask). When a link of it is overloaded, the unit falls apart into its
// transfers, each free or solved by itself.

#include <cstdint>
#include <deque>
#include <exception>
#include <vector>

#include "core/play/clocks/event_queue.hpp"
#include "core/play/clocks/lane_routes.hpp"
#include "core/play/clocks/play_clock.hpp"
#include "sim/link_loads.hpp"
#include "sim/simgrid_facade.hpp"

namespace rehearse::sim {

/// Which flows SimGrid gets: those that share an overloaded link, or all (slower; to check the former against).
enum class Solved { contended, all };

/// One at a time in a process. `cluster` must outlive the clock. `bytes` and `cap` of a flow are those of one lane.
class SimGridClock final : public PlayClock, private SimGridFacade::Listener {
 public:
  /// Throws Error (unavailable) while another SimGrid clock lives.
  explicit SimGridClock(const Cluster& cluster, Solved solved = Solved::contended);

  [[nodiscard]] Seconds now() const override { return Seconds{now_}; }
  TimerId set_timer(Seconds at, Token token) override;
  void cancel_timer(TimerId id) override { events_.cancel(id); }
  BundleId prepare(std::span<const Flow> flows, int lanes, int lane_stride) override;
  void start(BundleId bundle, Token token) override;
  void keep_to(const std::vector<LinkId>& links) override { facade_.keep_to(links); }
  /// What the handler throws ends the run: flows under way are played to their end unheard, then it is thrown on.
  void run(Handler& handler) override;
  using PlayClock::link_bytes;
  [[nodiscard]] std::vector<double> link_bytes(const std::vector<bool>& from) const override {
    return routes_.link_bytes(from);
  }
  /// Transfers that SimGrid was given so far, from their start or on their way.
  [[nodiscard]] std::uint64_t solver_flows() const { return solver_flows_; }

 private:
  /// A flow, or one lane of it.
  struct Transfer {
    const LaneRoute* route;
    Bytes bytes;
    BytesPerSecond cap, rate;  // `rate`: while free.
  };
  /// Transfers of a bundle that take equally long alone, and what they ask of the links together.
  struct Stage {
    double seconds;
    std::vector<Transfer> transfers;
    std::vector<LinkLoads::Ask> asks;
  };
  struct Bundle {
    std::vector<Stage> stages;
  };
  struct Started {
    BundleId bundle;
    int under_way;  // Units not yet ended.
    std::uint64_t sequence;
    Token token;
  };
  /// A stage, or one transfer of it, under way.
  struct Unit {
    std::size_t started;
    const Stage* stage;
    int transfer;       // kAll: the whole stage.
    double start, end;  // While free.
    EventQueue::Id event;
  };
  using UnitId = LinkLoads::FlowId;
  static constexpr int kAll = -1;

  void on_wake() override;
  void on_flow_end(std::uint64_t transfer, bool last) override;
  void dispatch();
  void advance();
  void abandon();
  void deliver_due();
  void deliver(const EventQueue::Event& event);
  void admit_waiting();
  [[nodiscard]] std::vector<LinkLoads::Ask> asks_of(const Stage& stage) const;
  [[nodiscard]] static std::span<const Transfer> transfers_of(const Unit& unit);
  UnitId add_unit(std::size_t started, const Stage& stage, int transfer, double start);
  std::vector<UnitId> split(UnitId id);
  void make_room();
  void settle(UnitId id);
  void run_free(UnitId id);
  void hand_over();

  LaneRoutes routes_;
  SimGridFacade facade_;
  const Solved solved_;
  LinkLoads loads_;
  EventQueue events_;           // An end of a unit has its index as payload.
  std::deque<Bundle> bundles_;  // Units point to their stages.
  std::vector<Started> started_;
  std::vector<std::size_t> free_started_;
  std::vector<Unit> units_;
  std::vector<UnitId> free_units_;
  std::vector<std::size_t> waiting_;  // Bundles that start at now_.
  std::vector<UnitId> newcomers_;     // Their units.
  struct Handover {
    UnitId unit;
    Bytes left;
  };
  std::vector<Handover> for_solver_;  // Transfers that SimGrid gets once it has reached now_.
  std::size_t solving_ = 0;           // Transfers that SimGrid has.
  std::uint64_t solver_flows_ = 0;
  double now_ = 0;
  Handler* handler_ = nullptr;
  std::exception_ptr failure_;
};

}  // namespace rehearse::sim
