#pragma once
// Flows that SimGrid has: their start, and the telling of their ends. For simgrid_facade.cpp only.
//
// SimGrid 3.32 keeps all host-to-host comms in one list and searches all of it when one ends: 16,000 under way cost 50
// us each. So a comm is used there to start its action, the thing whose rate is solved for, and let go at once: it is
// posted as ended through an empty action of its own, while the true one runs on without it. Ends are then read off the
// model's finished actions when time has advanced. From 3.34 on the list is a set, and a comm stays with its action to
// the end.

#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include <simgrid/kernel/resource/Action.hpp>
#include <simgrid/kernel/resource/Model.hpp>
#include <simgrid/s4u.hpp>

#include "sim/simgrid_facade.hpp"

namespace rehearse::sim {

class FlowPool {
 public:
  FlowPool(SimGridFacade::Listener& listener, simgrid::kernel::resource::Model& network);
  ~FlowPool();
  FlowPool(const FlowPool&) = delete;
  FlowPool& operator=(const FlowPool&) = delete;

  /// Of `size` units, at most `rate` units per second.
  void start(simgrid::s4u::Host& src, simgrid::s4u::Host& dst, std::uint64_t size, double rate, std::uint64_t payload);
  /// SimGrid touches what has ended until the callback has returned: to be called when it calls next.
  void release_ended();
  /// Ends at this date that the listener has not been told of.
  [[nodiscard]] bool ends_pending() const;
  /// Connects SimGrid's signals, which belong to the process: once, after its set-up.
  static void connect();

 private:
  using Action = simgrid::kernel::resource::Action;
  struct Flow {
    FlowPool* pool = nullptr;
    std::uint64_t payload = 0;
    simgrid::s4u::CommPtr comm;
    std::unique_ptr<Action> stand_in;  // Lets the comm go.
  };

  Flow& take(std::uint64_t payload);
  void let_go(Flow& flow, Action& action);
  void tell_ends();
  static void on_completion(const simgrid::s4u::Activity& activity);

  SimGridFacade::Listener& listener_;
  simgrid::kernel::resource::Model& network_;
  std::deque<Flow> flows_;  // They don't move.
  std::vector<Flow*> ended_, free_;
  std::unordered_map<const Action*, std::uint64_t> running_;  // Payload of actions without a comm.
  std::vector<Action*> to_tell_;
  std::size_t told_ = 0;
};

}  // namespace rehearse::sim
