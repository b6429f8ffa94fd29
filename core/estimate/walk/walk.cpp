#include "core/estimate/walk/walk.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "core/base/index.hpp"
#include "core/base/stop.hpp"
#include "core/estimate/walk/call_prices.hpp"
#include "core/estimate/walk/walk_lane.hpp"

namespace rehearse {

namespace {

/// The least of many numbers of which few change at a time: a tree of winners.
class Earliest {
 public:
  explicit Earliest(std::size_t count) {
    while (leaves_ < count) leaves_ *= 2;
    times_.assign(leaves_, std::numeric_limits<double>::infinity());
    winners_.assign(2 * leaves_, 0);
    for (std::size_t i = 0; i < leaves_; ++i) winners_[leaves_ + i] = i;
    for (std::size_t n = leaves_; n-- > 1;) winners_[n] = winners_[2 * n];
  }
  void set(std::size_t i, double time) {
    if (times_[i] == time) return;
    times_[i] = time;
    for (std::size_t n = (leaves_ + i) / 2; n >= 1; n /= 2) {
      const std::size_t a = winners_[2 * n], b = winners_[2 * n + 1];
      winners_[n] = times_[b] < times_[a] ? b : a;
    }
  }
  [[nodiscard]] std::size_t first() const { return leaves_ == 1 ? 0 : winners_[1]; }
  [[nodiscard]] double time() const { return times_[first()]; }

 private:
  std::size_t leaves_ = 1;
  std::vector<double> times_;
  std::vector<std::size_t> winners_;
};

constexpr std::uint32_t kAskEvery = 4096;

class Walk {
 public:
  Walk(const Program& program, int steps, CallPrices& prices, KindsOfRanks ranks)
      : program_(program),
        steps_(steps),
        prices_(prices),
        ranks_(std::move(ranks)),
        calls_(ranks_.calls.size()),
        earliest_(ranks_.kinds.size()) {
    for (const RankKind& kind : ranks_.kinds) lanes_.emplace_back(program, nth(ranks_.compiled, kind.compiled), steps);
    make_channels();
  }

  WalkResult run() {
    for (std::size_t k = 0; k < lanes_.size(); ++k)
      for (std::size_t i = 0; i < lanes_[k].role().ops.size(); ++i)
        if (lanes_[k].role().ops[i].dependencies == 0) push(static_cast<int>(k), static_cast<std::int32_t>(i));
    settle();
    for (std::uint32_t turn = 0; earliest_.time() < std::numeric_limits<double>::infinity(); ++turn) {
      if (turn % kAskEvery == 0) check_stop();
      const auto k = static_cast<int>(earliest_.first());
      double end = 0;
      const std::int32_t op = nth(lanes_, k).advance(end);
      if (op >= 0) finish(k, op, end);
      update(k);
      settle();
    }
    return result();
  }

 private:
  struct Ready {
    int kind;
    std::int32_t op;
  };
  /// Members of a call that are there.
  struct OpenCall {
    std::int32_t ordinal;
    double begin = 0, bytes = 0;
    std::vector<Ready> members;
  };
  /// Ends of messages that wait for their other end, first come first.
  struct Channel {
    std::vector<Ready> senders, receivers;
    std::size_t sent = 0, received = 0;
  };

  void make_channels() {
    std::map<std::tuple<int, int, int>, int> known;  // By edge, sender and receiver.
    const auto number = [&](int edge, int from, int to) {
      return known.try_emplace({edge, from, to}, static_cast<int>(known.size())).first->second;
    };
    for (std::size_t k = 0; k < ranks_.kinds.size(); ++k) {
      const RankKind& kind = ranks_.kinds[k];
      const auto& endpoints = nth(ranks_.compiled, kind.compiled).endpoints;
      channel_of_.emplace_back();
      for (std::size_t e = 0; e < endpoints.size(); ++e)
        channel_of_[k].push_back({number(endpoints[e].edge, static_cast<int>(k), kind.peers[e]),
                                  number(endpoints[e].edge, kind.peers[e], static_cast<int>(k))});
    }
    channels_.resize(known.size());
  }

  void push(int kind, std::int32_t op) { ready_.push_back({kind, op}); }

  void update(int kind) { earliest_.set(static_cast<std::size_t>(kind), nth(lanes_, kind).next()); }

  /// All that follows without a kernel's end.
  void settle() {
    while (!ready_.empty()) {
      const Ready r = ready_.back();
      ready_.pop_back();
      start(r);
    }
  }

  void start(const Ready& r) {
    WalkLane& lane = nth(lanes_, r.kind);
    const PlayOp& op = lane.op(r.op);
    const double ready = lane.at(r.op).ready;
    switch (op.kind) {
      case PlayOp::Kind::compute:
        lane.add_kernel(r.op);
        update(r.kind);
        break;
      case PlayOp::Kind::timer: lane.add_traffic(op.stream, ready, ready, ready + op.duration, {}); [[fallthrough]];
      case PlayOp::Kind::launch: finish(r.kind, r.op, ready + op.duration); break;
      case PlayOp::Kind::collective: join(r, op, ready); break;
      case PlayOp::Kind::send: post(r, nth(nth(channel_of_, r.kind), op.group)[0], true); break;
      case PlayOp::Kind::receive: post(r, nth(nth(channel_of_, r.kind), op.group)[1], false); break;
    }
  }

  void finish(int kind, std::int32_t index, double end) {
    WalkLane& lane = nth(lanes_, kind);
    const PlayOp& op = lane.op(index);
    lane.ended(index, end);
    ++done_;
    for (std::int32_t i = 0; i < op.successor_count; ++i) {
      const std::int32_t next = nth(lane.role().successors, op.successors + i);
      WalkLane::State& state = lane.at(next);
      if (state.cause < 0 || end >= state.ready) {
        state.ready = end;
        state.cause = index;
      }
      if (--state.missing == 0) push(kind, next);
    }
  }

  void move(const Ready& r, double begin, const CallPrice& price) {
    WalkLane& lane = nth(lanes_, r.kind);
    const double moved = begin + price.seconds, end = moved + price.wait;
    lane.add_traffic(lane.op(r.op).stream, begin, moved, end, price.load);
    update(r.kind);
    finish(r.kind, r.op, end);
  }

  void join(const Ready& r, const PlayOp& op, double ready) {
    const int number = nth(nth(ranks_.kinds, r.kind).calls, op.group);
    auto& open = nth(calls_, number);
    auto at = std::find_if(open.begin(), open.end(), [&](const OpenCall& c) { return c.ordinal == op.ordinal; });
    if (at == open.end()) at = open.insert(open.end(), {op.ordinal, 0, 0, {}});
    at->begin = std::max(at->begin, ready);
    at->bytes = std::max(at->bytes, op.bytes);
    at->members.push_back(r);
    if (static_cast<int>(at->members.size()) < nth(ranks_.calls, number).kinds) return;
    const OpenCall call = std::move(*at);
    open.erase(at);
    const CallGroup& group = nth(ranks_.calls, number);
    const CallPrice& price = prices_.call(
        {op.collective, group.group, group.rank, call.bytes, CallOptions{.packed = op.packed, .direct = op.direct}});
    for (const Ready& m : call.members) move(m, call.begin, price);
  }

  void post(const Ready& r, int number, bool sends) {
    Channel& channel = nth(channels_, number);
    (sends ? channel.senders : channel.receivers).push_back(r);
    if (channel.sent == channel.senders.size() || channel.received == channel.receivers.size()) return;
    const Ready from = channel.senders[channel.sent++], to = channel.receivers[channel.received++];
    const WalkLane& sender = nth(lanes_, from.kind);
    const PlayOp& op = sender.op(from.op);
    const RankKind& kind = nth(ranks_.kinds, from.kind);
    const auto ready = [this](const Ready& end) { return nth(lanes_, end.kind).at(end.op).ready; };
    const int edge = nth(sender.role().endpoints, op.group).edge;
    const CallPrice& price = prices_.message({nth(program_.device_of_rank, kind.rank), nth(kind.peer_devices, op.group),
                                              op.bytes, nth(program_.edges, edge).blocking});
    const double begin = std::max(ready(from), ready(to));
    move(from, begin, price);
    move(to, begin, price);
  }

  WalkResult result() {
    std::size_t all = 0;
    for (const WalkLane& lane : lanes_) all += lane.role().ops.size();
    if (done_ != all) throw std::logic_error("the program waits for itself");
    std::vector<double> ends(static_cast<std::size_t>(steps_), 0.0);
    for (const WalkLane& lane : lanes_)
      for (std::size_t s = 0; s < ends.size(); ++s) ends[s] = std::max(ends[s], lane.step_ends()[s]);
    const double period = ends.back() - (steps_ > 1 ? nth(ends, steps_ - 2) : 0.0);
    WalkResult out;
    out.step_time = Seconds{period};
    double latest = -1;
    for (std::size_t k = 0; k < lanes_.size(); ++k) {
      out.kinds.push_back({ranks_.kinds[k].role, ranks_.kinds[k].rank, lanes_[k].breakdown(period)});
      const double end = lanes_[k].last_end();
      const auto bubble = [](const WalkedKind& kind) { return kind.breakdown[TimeCategory::bubble]; };
      const bool busier = end >= latest * (1 - 1e-12) && bubble(out.kinds[k]) < bubble(nth(out.kinds, out.slowest));
      if (end > latest * (1 + 1e-12) || busier) out.slowest = static_cast<int>(k);
      latest = std::max(latest, end);
    }
    return out;
  }

  const Program& program_;
  int steps_;
  CallPrices& prices_;
  KindsOfRanks ranks_;
  std::vector<WalkLane> lanes_;                              // By kind.
  std::vector<std::vector<OpenCall>> calls_;                 // By KindsOfRanks::calls.
  std::vector<std::vector<std::array<int, 2>>> channel_of_;  // By kind and endpoint: of what it sends and receives.
  std::vector<Channel> channels_;
  Earliest earliest_;
  std::vector<Ready> ready_;
  std::size_t done_ = 0;
};

}  // namespace

StepWalk::StepWalk(const Program& program, const CostModel& cost, int steps)
    : program_(program), cost_(cost), steps_(steps), prices_(program, cost) {}

WalkResult StepWalk::operator()() {
  if (!kinds_ || program_.bodies.size() != bodies_) kinds_.emplace(program_, cost_, steps_, prices_);
  bodies_ = program_.bodies.size();
  return Walk(program_, steps_, prices_, kinds_->find()).run();
}

WalkResult walk(const Program& program, const CostModel& cost, int steps) { return StepWalk(program, cost, steps)(); }

}  // namespace rehearse
