#include "sim/flow_pool.hpp"

#include <utility>

#include <simgrid/version.h>

namespace rehearse::sim {

namespace s4u = simgrid::s4u;

namespace {

#if SIMGRID_VERSION >= 33400
constexpr bool kLetCommsGo = false;
using CompletedActivity = s4u::Comm;
#else
constexpr bool kLetCommsGo = true;
using CompletedActivity = s4u::Activity;
#endif

FlowPool* current = nullptr;  // SimGrid runs one simulation at a time in a process, and its signals know no owner.

/// An action that consumes nothing.
class StandIn final : public simgrid::kernel::resource::Action {
 public:
  explicit StandIn(simgrid::kernel::resource::Model& model) : Action(&model, 0, false) {}
  void update_remains_lazy(double) override {}
};

}  // namespace

FlowPool::FlowPool(SimGridFacade::Listener& listener, simgrid::kernel::resource::Model& network)
    : listener_(listener), network_(network) {
  current = this;
}

FlowPool::~FlowPool() {
  current = nullptr;
  release_ended();
}

void FlowPool::connect() {
  CompletedActivity::on_completion_cb([](const auto& activity) { on_completion(activity); });
  s4u::Engine::on_time_advance_cb([](double) {
    if (kLetCommsGo && current != nullptr) current->tell_ends();
  });
}

FlowPool::Flow& FlowPool::take(std::uint64_t payload) {
  if (free_.empty()) free_.push_back(&flows_.emplace_back());
  Flow& flow = *free_.back();
  free_.pop_back();
  flow.pool = this;
  flow.payload = payload;
  return flow;
}

void FlowPool::start(s4u::Host& src, s4u::Host& dst, std::uint64_t size, double rate, std::uint64_t payload) {
  Flow& flow = take(payload);
  flow.comm = s4u::Comm::sendto_async(&src, &dst, size);
  flow.comm->set_data(&flow);
  // Comm::set_rate() does not reach host-to-host comms (3.32 to 4.1), so the cap goes to the comm's action: the newest
  // one.
  Action& action = network_.get_started_action_set()->back();
  if (rate < action.get_user_bound()) action.set_bound(rate);
  if (kLetCommsGo) let_go(flow, action);
}

void FlowPool::let_go(Flow& flow, Action& action) {
  running_.emplace(&action, flow.payload);
  action.ref();
  flow.stand_in = std::make_unique<StandIn>(network_);
  flow.stand_in->set_activity(action.get_activity());
  action.set_activity(nullptr);
  flow.stand_in->finish(Action::State::FINISHED);
}

void FlowPool::release_ended() {
  for (Flow* flow : ended_) {
    flow->comm.reset();
    flow->stand_in.reset();
    free_.push_back(flow);
  }
  ended_.clear();
}

bool FlowPool::ends_pending() const {
  return kLetCommsGo ? told_ < to_tell_.size() : !network_.get_finished_action_set()->empty();
}

/// Time has advanced: the finished actions are those of flows that end now.
void FlowPool::tell_ends() {
  for (Action& action : *network_.get_finished_action_set())
    if (running_.count(&action) != 0) to_tell_.push_back(&action);
  if (to_tell_.empty()) return;
  release_ended();
  while (told_ < to_tell_.size()) {
    const auto at = running_.find(to_tell_[told_++]);
    const std::uint64_t payload = at->second;
    running_.erase(at);
    to_tell_[told_ - 1]->unref();
    listener_.on_flow_end(payload, !ends_pending());
  }
  to_tell_.clear();
  told_ = 0;
}

void FlowPool::on_completion(const s4u::Activity& activity) {
  auto* flow = activity.get_data<Flow>();
  if (flow == nullptr) return;
  FlowPool& pool = *flow->pool;
  if (!kLetCommsGo) pool.release_ended();
  pool.ended_.push_back(flow);
  if (!kLetCommsGo) pool.listener_.on_flow_end(flow->payload, !pool.ends_pending());
}

}  // namespace rehearse::sim
