#include "core/play/player/one_player.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/base/stop.hpp"
#include "core/play/audit.hpp"
#include "core/play/player/accounts.hpp"
#include "core/play/player/actors.hpp"
#include "core/play/player/alike.hpp"
#include "core/play/player/traffic_book.hpp"

namespace rehearse {

namespace {

/// Operations between two reports of progress.
constexpr std::int64_t kReportEvery = 1 << 14;

/// First in, first out; nearly always of a few.
template <class T>
class Fifo {
 public:
  [[nodiscard]] bool empty() const { return head_ == items_.size(); }
  void push(const T& item) { items_.push_back(item); }
  T pop() {
    const T item = items_[head_++];
    if (empty()) {
      items_.clear();
      head_ = 0;
    }
    return item;
  }

 private:
  std::vector<T> items_;
  std::size_t head_ = 0;
};

class Player final : public OnePlayer {
 public:
  Player(const Cluster& cluster, const PlayedProgram& what, PlayClock& clock)
      : options_(what.options),
        clock_(clock),
        each_(make_cast(what.program, cluster, what.cost, options_)),
        planner_(what.program, cluster, what.cost, options_),
        alike_(find_alike(what.program, cluster)),
        folded_(alike_ ? alike_->take_cast() : Cast{}),
        cast_(alike_ ? folded_ : each_),
        states_(cast_),
        accounts_(what.program, cast_, traced_by(what.sink), options_, what.sink, states_),
        audit_(cluster),
        traffic_(planner_, cast_, alike_.get(), clock) {
    actors_.resize(cast_.actors.size());
    const auto steps = static_cast<std::size_t>(options_.steps);
    for (std::size_t a = 0; a < actors_.size(); ++a) {
      const CompiledRole& c = compiled(static_cast<std::int32_t>(a));
      actors_[a].role = &c;
      left_in_step_.resize((a + 1) * steps, 0);
      for (const PlayOp& op : c.ops) ++left_in_step_[a * steps + static_cast<std::size_t>(op.step)];
    }
    operations_ = static_cast<std::int64_t>(states_.count());
    step_end_.assign(steps, 0.0);
    open_calls_.resize(cast_.groups.size());
    channels_.resize(cast_.channel_list.size());
  }

  void begin() override {
    for (std::size_t a = 0; a < actors_.size(); ++a) {
      const CompiledRole& c = *actors_[a].role;
      for (std::size_t i = 0; i < c.ops.size(); ++i)
        if (c.ops[i].dependencies == 0) ready_.push_back({static_cast<std::int32_t>(a), static_cast<std::int32_t>(i)});
    }
    drain();
  }

  RunResult end(const std::string& name) override {
    require_done();
    return result(name);
  }

  void on_timer(PlayClock::Token token) override {
    ++timers_;
    const Pending p = take(token);
    switch (p.kind) {
      case Pending::Kind::op:
        nth(actors_, p.a).compute = {};
        finish(p.a, p.b);
        break;
      case Pending::Kind::plain: finish(p.a, p.b); break;
      case Pending::Kind::collective: end_collective(p.a); break;
      case Pending::Kind::message: end_message(p.a); break;
      case Pending::Kind::hosts: release_ends(p.a); break;
    }
    drain();
  }

  void on_flow(PlayClock::Token token) override {
    const Pending p = take(token);
    if (p.kind == Pending::Kind::collective) {
      after(nth(calls_, p.a).traffic->latency, p);
    } else {
      const Message& m = nth(messages_, p.a);
      audit_.flow(device(m.from), device(m.to), m.traffic->narrowest, m.bytes, now() - m.begin);
      after(m.traffic->latency, p);
    }
  }

 private:
  /// What folds the cast further; null where nothing does. Estimates fold in their own way.
  std::unique_ptr<Alike> find_alike(const Program& program, const Cluster& cluster) {
    if (!options_.fold || !options_.fold_alike || each_.actors.size() < 2) return nullptr;
    auto out = std::make_unique<Alike>(program, cluster, planner_, each_);
    return out->actors() < each_.actors.size() ? std::move(out) : nullptr;
  }

  /// The ranks whose spans are wanted, by the actor that plays them.
  std::vector<std::vector<TracedRank>> traced_by(const TraceSink& sink) const {
    std::vector<std::vector<TracedRank>> out(cast_.actors.size());
    for (std::size_t a = 0; a < each_.actors.size(); ++a) {
      const auto actor = static_cast<std::int32_t>(a);
      if (sink.wants(each_.actors[a].rank))
        nth(out, alike_ ? alike_->actor_of(actor) : actor).push_back({each_.actors[a].rank, each_.channels[a]});
    }
    return out;
  }

  struct Pending {
    enum class Kind : std::uint8_t { op, plain, collective, message, hosts } kind;
    std::int32_t a, b;
  };
  /// The kernel run in progress on an actor's compute stream.
  struct Computing {
    std::int32_t op = -1;
    double left = 0, rate = 1, since = 0;
    PlayClock::TimerId timer = 0;
    PlayClock::Token token = 0;
  };
  struct ActorState {
    const CompiledRole* role = nullptr;
    Computing compute;
    Interference load;
  };
  struct Ready {
    std::int32_t actor, op;
  };
  /// Partners of a collective, until the last of them is there, and then until it ends.
  struct Call {
    std::vector<Ready> members;
    double bytes = 0;
    const TrafficBook::Call* traffic = nullptr;
  };
  struct OpenCall {
    std::int32_t ordinal, call;
  };
  struct Message {
    Ready from, to;
    double bytes, begin;
    const TrafficBook::Call* traffic;
  };
  /// Ends of messages that wait for their other end.
  struct Channel {
    Fifo<Ready> senders, receivers;
  };

  [[nodiscard]] const CompiledRole& compiled(std::int32_t actor) const {
    return nth(cast_.compiled, nth(cast_.actors, actor).compiled);
  }
  [[nodiscard]] const PlayOp& op_of(const Ready& r) const { return nth(nth(actors_, r.actor).role->ops, r.op); }
  [[nodiscard]] DeviceId device(const Ready& r) const { return nth(cast_.actors, r.actor).device; }
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
      case PlayOp::Kind::launch:
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
    const CompiledRole& c = *nth(actors_, actor).role;
    const PlayOp& op = nth(c.ops, index);
    accounts_.end(actor, index, op, now());
    if (++done_ % kReportEvery == 0) {
      check_stop();
      if (options_.progress) options_.progress({done_, operations_, clock_.now()});
    }
    if (--left_in_step_[static_cast<std::size_t>(actor) * step_end_.size() + static_cast<std::size_t>(op.step)] == 0)
      nth(step_end_, op.step) = std::max(nth(step_end_, op.step), now());
    for (std::int32_t i = 0; i < op.successor_count; ++i) {
      const std::int32_t next = nth(c.successors, op.successors + i);
      OperationState& state = states_.at(actor, next);
      if (--state.missing > 0) continue;
      state.cause = index;
      ready_.push_back({actor, next});
    }
  }

  // ---- kernels

  void start_compute(const Ready& r, const PlayOp& op) {
    ActorState& s = nth(actors_, r.actor);
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
    ActorState& s = nth(actors_, actor);
    s.load.sm_share = std::max(0.0, s.load.sm_share + sign * load.sm_share);
    s.load.hbm_share = std::max(0.0, s.load.hbm_share + sign * load.hbm_share);
    if (s.load.sm_share < 1e-12) s.load.sm_share = 0;
    if (s.load.hbm_share < 1e-12) s.load.hbm_share = 0;
    Computing& c = s.compute;
    if (c.op < 0) return;
    const PlayOp& op = nth(s.role->ops, c.op);
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
    auto& open = nth(open_calls_, group);
    auto at = std::find_if(open.begin(), open.end(), [&](const OpenCall& o) { return o.ordinal == op.ordinal; });
    if (at == open.end()) at = open.insert(open.end(), {op.ordinal, new_call()});
    const std::int32_t index = at->call;
    Call& call = nth(calls_, index);
    call.members.push_back(r);
    call.bytes = std::max(call.bytes, op.bytes);
    if (call.members.size() < nth(cast_.groups, group).actors.size()) return;
    open.erase(at);
    begin_call(index, group, op);
  }

  std::int32_t new_call() {
    if (free_calls_.empty()) {
      calls_.emplace_back();
      return static_cast<std::int32_t>(calls_.size()) - 1;
    }
    const std::int32_t index = free_calls_.back();
    free_calls_.pop_back();
    return index;
  }

  void begin_call(std::int32_t index, std::int32_t group, const PlayOp& op) {
    Call& call = nth(calls_, index);
    call.traffic = &traffic_.collective(group, op.collective, call.bytes, {.packed = op.packed, .direct = op.direct});
    const Pending done{Pending::Kind::collective, index, 0};
    if (call.traffic->flows > 0) {
      flows_ += call.traffic->flows;
      traffic_.start(*call.traffic, keep(done));
    }
    for (const Ready& m : call.members) {
      accounts_.begin(m.actor, m.op, op_of(m), now());
      change_load(m.actor, call.traffic->load, +1);
    }
    if (call.traffic->flows == 0) after(call.traffic->latency, done);
  }

  void end_collective(std::int32_t index) {
    Call& call = nth(calls_, index);
    for (const Ready& m : call.members) change_load(m.actor, call.traffic->load, -1);
    for (const Ready& m : call.members) finish(m.actor, m.op);
    call.members.clear();
    call.bytes = 0;
    free_calls_.push_back(index);
  }

  // ---- messages

  void post(const Ready& r, const PlayOp& op, bool sends) {
    const std::int32_t channel = nth(nth(cast_.channels, r.actor), op.group * 2 + (sends ? 0 : 1));
    Channel& ends = nth(channels_, channel);
    Fifo<Ready>& theirs = sends ? ends.receivers : ends.senders;
    if (theirs.empty()) return (sends ? ends.senders : ends.receivers).push(r);
    const Ready other = theirs.pop();
    begin_message(channel, sends ? r : other, sends ? other : r);
  }

  void begin_message(std::int32_t channel, const Ready& from, const Ready& to) {
    const double bytes = op_of(from).bytes;
    const TrafficBook::Call& traffic = traffic_.message(channel, bytes);
    const auto index = static_cast<std::int32_t>(free_messages_.empty() ? messages_.size() : free_messages_.back());
    if (free_messages_.empty())
      messages_.emplace_back();
    else
      free_messages_.pop_back();
    nth(messages_, index) = {from, to, bytes, now(), &traffic};
    for (const Ready& r : {from, to}) {
      accounts_.begin(r.actor, r.op, op_of(r), now());
      change_load(r.actor, traffic.load, +1);
    }
    const Pending done{Pending::Kind::message, index, 0};
    if (traffic.flows == 0) return after(traffic.latency, done);
    ++flows_;
    traffic_.start(traffic, keep(done));
  }

  void end_message(std::int32_t index) {
    const Message& m = nth(messages_, index);
    for (const Ready& r : {m.from, m.to}) change_load(r.actor, m.traffic->load, -1);
    if (m.traffic->wait > 0) return after(m.traffic->wait, {Pending::Kind::hosts, index, 0});
    release_ends(index);
  }

  void release_ends(std::int32_t index) {
    const Message m = nth(messages_, index);
    free_messages_.push_back(static_cast<std::size_t>(index));
    for (const Ready& r : {m.from, m.to}) finish(r.actor, r.op);
  }

  // ---- the end

  void require_done() const {
    if (done_ == operations_) return;
    std::string waiting;
    int named = 0;
    for (std::size_t a = 0; a < actors_.size() && named < 4; ++a) {
      for (std::size_t i = 0; i < actors_[a].role->ops.size(); ++i)
        if (accounts_.is_waiting(static_cast<std::int32_t>(a), static_cast<std::int32_t>(i))) {
          waiting += fmt::format("; rank {} waits in {}", cast_.actors[a].rank,
                                 accounts_.describe(static_cast<std::int32_t>(a), static_cast<std::int32_t>(i)));
          if (++named == 4) break;
        }
    }
    throw std::logic_error(fmt::format("the program got stuck: {} of {} operations never ran{}", operations_ - done_,
                                       operations_, waiting));
  }

  RunResult result(const std::string& name) {
    RunResult out;
    out.backend = name;
    const double begin = options_.steps > 1 ? nth(step_end_, options_.steps - 2) : 0.0;
    out.step_time = Seconds{step_end_.back() - begin};
    out.begin = Seconds{begin};
    for (std::size_t i = 0; i < step_end_.size(); ++i)
      out.step_times.push_back(Seconds{step_end_[i] - (i == 0 ? 0.0 : step_end_[i - 1])});
    accounts_.close(begin, step_end_.back(), out);
    out.folded = cast_.lanes > 1 || alike_ != nullptr;
    out.folding = cast_.folding;
    out.tasks = operations_;
    out.timers = timers_;
    out.flows = flows_;
    for (const CompiledRole& c : cast_.compiled)
      out.breaches.insert(out.breaches.end(), c.breaches.begin(), c.breaches.end());
    audit_.close(traffic_.link_bytes(), step_end_.back(), options_.steps, out);
    accounts_.check_causality(out);
    return out;
  }

  const RunOptions& options_;
  PlayClock& clock_;
  Cast each_;  // Its compiled roles are the folded cast's where there is one.
  TrafficPlanner planner_;
  std::unique_ptr<Alike> alike_;
  Cast folded_;
  const Cast& cast_;
  OperationStates states_;
  Accounts accounts_;
  Audit audit_;
  TrafficBook traffic_;
  std::vector<ActorState> actors_;
  std::vector<std::int32_t> left_in_step_;  // By actor and step.
  std::vector<Ready> ready_;
  std::vector<Pending> pending_;
  std::vector<std::size_t> free_;
  std::vector<Call> calls_;
  std::vector<std::int32_t> free_calls_;
  std::vector<std::vector<OpenCall>> open_calls_;  // By group.
  std::vector<Message> messages_;
  std::vector<std::size_t> free_messages_;
  std::vector<Channel> channels_;
  std::vector<double> step_end_;
  std::int64_t operations_ = 0, done_ = 0, timers_ = 0, flows_ = 0;
};

}  // namespace

std::unique_ptr<OnePlayer> make_player(const Cluster& cluster, const PlayedProgram& what, PlayClock& clock) {
  return std::make_unique<Player>(cluster, what, clock);
}

}  // namespace rehearse
