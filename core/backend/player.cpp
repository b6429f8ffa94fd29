#include "core/backend/player.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>

#include <fmt/format.h>

#include "core/backend/accounts.hpp"
#include "core/backend/actors.hpp"
#include "core/backend/analytic_clock.hpp"
#include "core/backend/audit.hpp"

namespace rehearse {

namespace {

/// Below this share of its time spent moving bytes a collective is a timer: its flows could not load a wire.
constexpr double kTimerOnlyShare = 0.02;

class Player final : public PlayClock::Handler {
 public:
  Player(const Program& program, const Cluster& cluster, const CostModel& cost, const RunOptions& options, TraceSink& sink, PlayClock& clock)
      : p_(program), cluster_(cluster), cost_(cost), options_(options), clock_(clock), cast_(make_cast(program, cluster, cost, options)),
        accounts_(program, cast_, options, sink), audit_(cluster) {
    state_.resize(cast_.actors.size());
    for (std::size_t a = 0; a < state_.size(); ++a) {
      const CompiledRole& c = compiled(static_cast<std::int32_t>(a));
      state_[a].missing.reserve(c.ops.size());
      for (const PlayOp& op : c.ops) state_[a].missing.push_back(static_cast<std::uint16_t>(op.dependencies));
      state_[a].left_in_step.assign(static_cast<std::size_t>(options.steps), 0);
      for (const PlayOp& op : c.ops) ++state_[a].left_in_step[static_cast<std::size_t>(op.step)];
      operations_ += static_cast<std::int64_t>(c.ops.size());
    }
    step_end_.assign(static_cast<std::size_t>(options.steps), 0.0);
    senders_.resize(cast_.channel_list.size());
    receivers_.resize(cast_.channel_list.size());
  }

  RunResult run(const std::string& name) {
    for (std::size_t a = 0; a < state_.size(); ++a) {
      const CompiledRole& c = compiled(static_cast<std::int32_t>(a));
      for (std::size_t i = 0; i < c.ops.size(); ++i)
        if (c.ops[i].dependencies == 0) ready_.push_back({static_cast<std::int32_t>(a), static_cast<std::int32_t>(i)});
    }
    drain();
    clock_.run(*this);
    require_done();
    return result(name);
  }

  void on_timer(PlayClock::Token token) override {
    ++timers_;
    const Pending p = take(token);
    switch (p.kind) {
      case Pending::Kind::op:
        state_[static_cast<std::size_t>(p.a)].compute = {};
        finish(p.a, p.b);
        break;
      case Pending::Kind::plain: finish(p.a, p.b); break;
      case Pending::Kind::collective: end_collective(p.a); break;
      case Pending::Kind::message: end_message(p.a); break;
    }
    drain();
  }

  void on_flow(PlayClock::Token token) override {
    const Pending p = take(token);
    if (p.kind == Pending::Kind::collective) {
      Call& call = calls_[static_cast<std::size_t>(p.a)];
      if (--call.flows > 0) return;
      after(call.latency, {Pending::Kind::collective, p.a, 0});
    } else {
      Message& m = messages_[static_cast<std::size_t>(p.a)];
      audit_.flow(cast_.actors[static_cast<std::size_t>(m.from)].device, cast_.actors[static_cast<std::size_t>(m.to)].device, m.bytes,
                  now() - m.begin);
      after(m.latency, {Pending::Kind::message, p.a, 0});
    }
  }

 private:
  struct Pending { enum class Kind : std::uint8_t { op, plain, collective, message } kind; std::int32_t a, b; };
  /// The kernel run in progress on an actor's compute stream.
  struct Computing { std::int32_t op = -1; double left = 0, rate = 1, since = 0; PlayClock::TimerId timer = 0; PlayClock::Token token = 0; };
  struct ActorState {
    std::vector<std::uint16_t> missing;
    std::vector<std::int32_t> left_in_step;
    Computing compute;
    Interference load;
  };
  struct Ready { std::int32_t actor, op; };
  struct Call {
    std::int32_t group = -1;
    std::vector<Ready> members;
    double bytes = 0, begin = 0, latency = 0;
    int flows = 0;
    Interference load;
  };
  struct Message { std::int32_t from, to, send_op, receive_op; double bytes, begin, latency; Interference load; };
  struct Planned { FluidPlan plan; CollectiveChoice choice; bool timer; };

  [[nodiscard]] const CompiledRole& compiled(std::int32_t actor) const {
    return cast_.compiled[static_cast<std::size_t>(cast_.actors[static_cast<std::size_t>(actor)].compiled)];
  }
  [[nodiscard]] const PlayOp& op_of(const Ready& r) const { return compiled(r.actor).ops[static_cast<std::size_t>(r.op)]; }
  [[nodiscard]] double now() const { return clock_.now().value(); }

  PlayClock::Token keep(const Pending& p) {
    if (free_.empty()) {
      pending_.push_back(p);
      return pending_.size() - 1;
    }
    const auto at = free_.back();
    free_.pop_back();
    pending_[at] = p;
    return at;
  }
  Pending take(PlayClock::Token token) {
    free_.push_back(token);
    return pending_[token];
  }
  void after(double seconds, const Pending& p) { clock_.set_timer(Seconds{now() + seconds}, keep(p)); }

  void drain() {
    while (!ready_.empty()) {
      const Ready r = ready_.back();
      ready_.pop_back();
      start(r);
    }
  }

  void start(const Ready& r) {
    const PlayOp& op = op_of(r);
    accounts_.ready(r.actor, r.op, now());
    switch (op.kind) {
      case PlayOp::Kind::compute: start_compute(r, op); break;
      case PlayOp::Kind::timer:
        accounts_.begin(r.actor, r.op, op, now());
        after(op.duration, {Pending::Kind::plain, r.actor, r.op});
        break;
      case PlayOp::Kind::collective: join_call(r, op); break;
      case PlayOp::Kind::send: post(r, op, true); break;
      case PlayOp::Kind::receive: post(r, op, false); break;
    }
  }

  void finish(std::int32_t actor, std::int32_t index) {
    const CompiledRole& c = compiled(actor);
    const PlayOp& op = c.ops[static_cast<std::size_t>(index)];
    accounts_.end(actor, index, op, now());
    ++done_;
    ActorState& s = state_[static_cast<std::size_t>(actor)];
    if (--s.left_in_step[static_cast<std::size_t>(op.step)] == 0)
      step_end_[static_cast<std::size_t>(op.step)] = std::max(step_end_[static_cast<std::size_t>(op.step)], now());
    for (std::int32_t i = 0; i < op.successor_count; ++i) {
      const std::int32_t next = c.successors[static_cast<std::size_t>(op.successors + i)];
      if (--s.missing[static_cast<std::size_t>(next)] == 0) {
        accounts_.caused(actor, next, index);
        ready_.push_back({actor, next});
      }
    }
  }

  // ---- kernels

  void start_compute(const Ready& r, const PlayOp& op) {
    ActorState& s = state_[static_cast<std::size_t>(r.actor)];
    accounts_.begin(r.actor, r.op, op, now());
    if (s.compute.op >= 0) {
      // Kernels on a second stream run beside the first; only the first is slowed by communication.
      after(op.duration, {Pending::Kind::plain, r.actor, r.op});
      return;
    }
    s.compute = {r.op, op.duration, overlap_rate(op.sm_sensitivity, op.hbm_sensitivity, s.load), now(), 0, 0};
    arm(r.actor, s.compute);
  }

  void arm(std::int32_t actor, Computing& c) {
    c.token = keep({Pending::Kind::op, actor, c.op});
    c.timer = clock_.set_timer(Seconds{now() + c.left / c.rate}, c.token);
  }

  /// A collective or message begins (+1) or ends (-1) beside the kernels of an actor.
  void change_load(std::int32_t actor, const Interference& load, double sign) {
    ActorState& s = state_[static_cast<std::size_t>(actor)];
    s.load.sm_share = std::max(0.0, s.load.sm_share + sign * load.sm_share);
    s.load.hbm_share = std::max(0.0, s.load.hbm_share + sign * load.hbm_share);
    if (s.load.sm_share < 1e-12) s.load.sm_share = 0;
    if (s.load.hbm_share < 1e-12) s.load.hbm_share = 0;
    Computing& c = s.compute;
    if (c.op < 0) return;
    const PlayOp& op = compiled(actor).ops[static_cast<std::size_t>(c.op)];
    const double rate = overlap_rate(op.sm_sensitivity, op.hbm_sensitivity, s.load);
    if (rate == c.rate) return;
    c.left = std::max(0.0, c.left - (now() - c.since) * c.rate);
    c.since = now();
    c.rate = rate;
    clock_.cancel_timer(c.timer);
    take(c.token);
    arm(actor, c);
  }

  // ---- collectives

  void join_call(const Ready& r, const PlayOp& op) {
    const std::int32_t group = cast_.group_of(r.actor, op.group);
    const auto key = (static_cast<std::uint64_t>(group) << 32) | static_cast<std::uint32_t>(op.ordinal);
    const auto [at, fresh] = open_calls_.try_emplace(key, static_cast<std::int32_t>(calls_.size()));
    if (fresh) {
      calls_.emplace_back();
      calls_.back().group = group;
    }
    Call& call = calls_[static_cast<std::size_t>(at->second)];
    call.members.push_back(r);
    call.bytes = std::max(call.bytes, op.bytes);
    if (call.members.size() == cast_.groups[static_cast<std::size_t>(group)].actors.size()) {
      begin_call(at->second, op.collective);
      open_calls_.erase(at);
    }
  }

  const Planned& plan(const Cast::Group& group, std::int32_t group_id, CollectiveOp kind, double bytes) {
    const auto key = std::tuple(group_id, kind, bytes);
    if (const auto at = plans_.find(key); at != plans_.end()) return at->second;
    Planned planned;
    planned.choice = cost_.collectives().choose(kind, Bytes{bytes}, group.devices);
    const double moving = planned.choice.time.value() - planned.choice.latency.value();
    const bool one_node = std::all_of(group.devices.begin(), group.devices.end(),
                                      [&](DeviceId d) { return cluster_.node_of(d) == cluster_.node_of(group.devices.front()); });
    planned.timer = one_node || moving < kTimerOnlyShare * planned.choice.time.value();
    if (!planned.timer) planned.plan = cost_.collectives().plan(kind, Bytes{bytes}, group.devices);
    return plans_.emplace(key, std::move(planned)).first->second;
  }

  void begin_call(std::int32_t index, CollectiveOp kind) {
    Call& call = calls_[static_cast<std::size_t>(index)];
    const Cast::Group& group = cast_.groups[static_cast<std::size_t>(call.group)];
    call.begin = now();
    if (group.devices.size() > 1) {
      const Planned& planned = plan(group, call.group, kind, call.bytes);
      call.load = cost_.interference(kind, planned.choice, Bytes{call.bytes}, static_cast<int>(group.devices.size()), cast_.actors[static_cast<std::size_t>(group.actors.front())].rank, p_);
      if (planned.timer) {
        call.latency = planned.choice.time.value();
      } else {
        call.latency = planned.plan.latency.value();
        start_flows(index, planned.plan, group.lanes);
      }
    }
    for (const Ready& m : call.members) {
      accounts_.begin(m.actor, m.op, op_of(m), now());
      change_load(m.actor, call.load, +1);
    }
    if (call.flows == 0) after(call.latency, {Pending::Kind::collective, index, 0});
  }

  void start_flows(std::int32_t index, const FluidPlan& plan, int lanes) {
    Call& call = calls_[static_cast<std::size_t>(index)];
    double most = 0;
    for (const FluidEdge& e : plan.edges) most = std::max(most, e.bytes.value());
    for (const FluidEdge& e : plan.edges) {
      if (e.bytes <= Bytes{0}) continue;
      ++call.flows;
      ++flows_;
      clock_.start_flow(e.src, e.dst, e.bytes, plan.rate_cap * (e.bytes.value() / most), lanes, cast_.lane_stride, keep({Pending::Kind::collective, index, 0}));
    }
  }

  void end_collective(std::int32_t index) {
    Call& call = calls_[static_cast<std::size_t>(index)];
    const std::vector<Ready> members = std::move(call.members);
    const Interference load = call.load;
    for (const Ready& m : members) change_load(m.actor, load, -1);
    for (const Ready& m : members) finish(m.actor, m.op);
  }

  // ---- messages

  void post(const Ready& r, const PlayOp& op, bool sends) {
    const std::int32_t channel = cast_.channels[static_cast<std::size_t>(r.actor)][static_cast<std::size_t>(op.group * 2 + (sends ? 0 : 1))];
    auto& mine = (sends ? senders_ : receivers_)[static_cast<std::size_t>(channel)];
    auto& theirs = (sends ? receivers_ : senders_)[static_cast<std::size_t>(channel)];
    if (theirs.empty()) {
      mine.push_back(r);
      return;
    }
    const Ready other = theirs.front();
    theirs.erase(theirs.begin());
    begin_message(sends ? r : other, sends ? other : r);
  }

  void begin_message(const Ready& from, const Ready& to) {
    const double bytes = op_of(from).bytes;
    const DeviceId src = cast_.actors[static_cast<std::size_t>(from.actor)].device, dst = cast_.actors[static_cast<std::size_t>(to.actor)].device;
    const CollectiveChoice& choice = send_choice(bytes, src, dst);
    const auto index = static_cast<std::int32_t>(free_messages_.empty() ? messages_.size() : free_messages_.back());
    if (free_messages_.empty()) messages_.emplace_back();
    else free_messages_.pop_back();
    Message& m = messages_[static_cast<std::size_t>(index)];
    m = {from.actor, to.actor, from.op, to.op, bytes, now(), choice.latency.value(),
         cost_.interference(CollectiveOp::send_recv, choice, Bytes{bytes}, 2, cast_.actors[static_cast<std::size_t>(from.actor)].rank, p_)};
    for (const Ready& r : {from, to}) {
      accounts_.begin(r.actor, r.op, op_of(r), now());
      change_load(r.actor, m.load, +1);
    }
    if (bytes > 0 && src != dst) {
      ++flows_;
      clock_.start_flow(src, dst, Bytes{bytes}, choice.bandwidth, cast_.lanes, cast_.lane_stride, keep({Pending::Kind::message, index, 0}));
    } else {
      after(m.latency, {Pending::Kind::message, index, 0});
    }
  }

  const CollectiveChoice& send_choice(double bytes, DeviceId src, DeviceId dst) {
    const auto key = std::tuple(bytes, src, dst);
    const auto at = sends_.find(key);
    return at != sends_.end() ? at->second : sends_.emplace(key, cost_.collectives().send(Bytes{bytes}, src, dst)).first->second;
  }

  void end_message(std::int32_t index) {
    const Message m = messages_[static_cast<std::size_t>(index)];
    free_messages_.push_back(static_cast<std::size_t>(index));
    change_load(m.from, m.load, -1);
    change_load(m.to, m.load, -1);
    finish(m.from, m.send_op);
    finish(m.to, m.receive_op);
  }

  // ---- the end

  void require_done() const {
    if (done_ == operations_) return;
    std::string waiting;
    int named = 0;
    for (std::size_t a = 0; a < state_.size() && named < 4; ++a) {
      const CompiledRole& c = compiled(static_cast<std::int32_t>(a));
      for (std::size_t i = 0; i < c.ops.size(); ++i)
        if (state_[a].missing[i] == 0 && accounts_.is_waiting(static_cast<std::int32_t>(a), static_cast<std::int32_t>(i))) {
          waiting += fmt::format("; rank {} waits in {}", cast_.actors[a].rank, accounts_.describe(static_cast<std::int32_t>(a), static_cast<std::int32_t>(i)));
          if (++named == 4) break;
        }
    }
    throw std::logic_error(fmt::format("the program got stuck: {} of {} operations never ran{}", operations_ - done_, operations_, waiting));
  }

  RunResult result(const std::string& name) {
    RunResult out;
    out.backend = name;
    const double begin = options_.steps > 1 ? step_end_[static_cast<std::size_t>(options_.steps - 2)] : 0.0;
    out.step_time = Seconds{step_end_.back() - begin};
    accounts_.close(begin, step_end_.back(), out);
    out.folded = cast_.lanes > 1;
    out.folding = cast_.folding;
    out.tasks = operations_;
    out.timers = timers_;
    out.flows = flows_;
    for (const CompiledRole& c : cast_.compiled) out.breaches.insert(out.breaches.end(), c.breaches.begin(), c.breaches.end());
    audit_.close(clock_.link_bytes(), step_end_.back(), out);
    accounts_.check_causality(out);
    return out;
  }

  const Program& p_;
  const Cluster& cluster_;
  const CostModel& cost_;
  const RunOptions& options_;
  PlayClock& clock_;
  Cast cast_;
  Accounts accounts_;
  Audit audit_;
  std::vector<ActorState> state_;
  std::vector<Ready> ready_;
  std::vector<Pending> pending_;
  std::vector<std::size_t> free_;
  std::vector<Call> calls_;
  std::unordered_map<std::uint64_t, std::int32_t> open_calls_;
  std::map<std::tuple<std::int32_t, CollectiveOp, double>, Planned> plans_;
  std::vector<Message> messages_;
  std::vector<std::size_t> free_messages_;
  std::vector<std::vector<Ready>> senders_, receivers_;
  std::map<std::tuple<double, DeviceId, DeviceId>, CollectiveChoice> sends_;
  std::vector<double> step_end_;
  std::int64_t operations_ = 0, done_ = 0, timers_ = 0, flows_ = 0;
};

class AnalyticBackend final : public Backend {
 public:
  RunResult run(const Program& program, const Cluster& cluster, const CostModel& cost, const RunOptions& options, TraceSink& sink) override {
    AnalyticClock clock(cluster);
    return play(program, cluster, cost, options, sink, clock, "analytic");
  }
};

}  // namespace

RunResult play(const Program& program, const Cluster& cluster, const CostModel& cost, const RunOptions& options, TraceSink& sink,
               PlayClock& clock, const std::string& backend_name) {
  return Player(program, cluster, cost, options, sink, clock).run(backend_name);
}

Registry<BackendFactory>& backends() {
  static Registry<BackendFactory> registry("backend");
  return registry;
}

void register_analytic_backend() {
  static const bool once = backends().add({"analytic", "every flow has its wires to itself; no contention", {}, [] { return std::make_unique<AnalyticBackend>(); }});
  (void)once;
}

}  // namespace rehearse
