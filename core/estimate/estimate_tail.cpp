#include "core/estimate/estimate_tail.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "core/base/index.hpp"
#include "core/program/body.hpp"

namespace rehearse {

namespace {

/// Calls in which several stages take part, by group and how many calls of the group came before.
class TailMeetings {
 public:
  explicit TailMeetings(const Program& p) : p_(p), stages_(p.groups.size(), 0) {}

  struct Meeting {
    int arrived = 0;
    double begin = 0;
    Transfer transfer;
    bool priced = false;
  };
  Meeting& at(int group, int ordinal) { return meetings_[{group, ordinal}]; }

  /// How many stages belong to the group of `rank`.
  int stages(int group, int rank) {
    int& known = nth(stages_, group);
    if (known > 0) return known;
    std::set<int> roles;
    for (const int m : p_.mesh.members(nth(p_.groups, group), rank, p_.exprs)) roles.insert(nth(p_.role_of_rank, m));
    return known = std::max<int>(1, static_cast<int>(roles.size()));
  }

 private:
  const Program& p_;
  std::vector<int> stages_;
  std::map<std::pair<int, int>, Meeting> meetings_;
};

class Tail {
 public:
  Tail(const Program& p, const Stage& stage, EstimatePrices& prices, TailMeetings& meetings, StageLane& lane,
       EventTimes& events)
      : p_(p),
        stage_(stage),
        prices_(prices),
        meetings_(meetings),
        lane_(lane),
        events_(events),
        role_(nth(p.roles, stage.role)),
        stream_free_(p.streams.size(), 0.0),
        calls_(p.groups.size(), 0) {
    dp_ = p.stream_along(Axis::dp_shard);
    queues_.resize(p.streams.size());
    recorded_here_.assign(static_cast<std::size_t>(role_.events), 0);
    for (std::size_t i = static_cast<std::size_t>(stage.tail); i < role_.step.size(); ++i) {
      const Entry& e = role_.step[i];
      if (p.exprs.evaluate(e.predicate, prices.context(stage.role)) == 0) continue;
      nth(queues_, e.stream).entries.push_back(&e);
      if (e.record >= 0) nth(recorded_here_, e.record) = 1;
      ++left_;
    }
  }

  /// Goes on until the end or until a call waits for other stages. Returns whether it got anywhere.
  bool advance() {
    bool moved = false;
    while (left_ > 0) {
      if (in_hand_ == nullptr) take();
      const Entry& e = *in_hand_;
      if (prices_.closed(e.body, stage_.role))
        do_closed(e);
      else if (!do_open(e, moved))
        return moved;
      if (e.record >= 0) events_[e.record] = ended_;
      in_hand_ = nullptr;
      --left_;
      moved = true;
    }
    return moved;
  }

  [[nodiscard]] bool done() const { return left_ == 0; }

  TailResult result() const {
    TailResult out{kernels_, std::max(lane_.free, lane_.held)};
    for (const double at : stream_free_) out.end = std::max(out.end, at);
    out.end = std::max(out.end, lane_.dp_free);
    return out;
  }

 private:
  struct Queue {
    std::vector<const Entry*> entries;
    std::size_t next = 0;
  };

  /// The next entry whose waits are known. Streams beside compute go first, so that kernels meet the traffic they run
  /// beside.
  void take() {
    for (std::size_t s = queues_.size(); s-- > 0;) {
      Queue& q = queues_[s];
      if (q.next == q.entries.size() || !knows_waits(*q.entries[q.next])) continue;
      in_hand_ = q.entries[q.next++];
      ready_ = wait_of(*in_hand_);
      task_ = 0;
      return;
    }
    throw std::logic_error("a stage waits for itself after its last pass");
  }

  template <class Visit>
  void for_each_wait(const Entry& e, Visit visit) const {
    for (std::int32_t w = 0; w < e.wait_count; ++w) {
      const Wait& wait = nth(role_.waits, e.first_wait + w);
      if (wait.steps_back == 0) visit(wait.event);
    }
  }

  [[nodiscard]] bool knows_waits(const Entry& e) const {
    bool known = true;
    for_each_wait(e, [&](EventId event) { known &= nth(recorded_here_, event) == 0 || events_.count(event) != 0; });
    return known;
  }

  [[nodiscard]] double wait_of(const Entry& e) const {
    double at = 0;
    for_each_wait(e, [&](EventId event) { at = std::max(at, time_of(event)); });
    return at;
  }

  /// Events from before the tail are the ends of passes or of blocking messages, unless a side call recorded them.
  [[nodiscard]] double time_of(EventId event) const {
    if (const auto at = events_.find(event); at != events_.end()) return at->second;
    for (int i = stage_.tail; i-- > 0;) {
      const Entry& e = nth(role_.step, i);
      if (e.record == event) return e.stream == kCompute ? last_pass_ : lane_.held;
    }
    throw std::logic_error("an entry waits for an event that nothing records");
  }

  double& stream(StreamId s) { return s == dp_ ? lane_.dp_free : nth(stream_free_, s); }

  /// A kernel on the compute stream from `at` on; returns its end.
  double compute(double at, const ComputeWork& work) {
    lane_.wait_beside(at, TimeCategory::exposed_tp, TimeCategory::exposed_dp);
    lane_.compute(work, work.seconds);
    kernels_ += work.breakdown;
    return lane_.free;
  }

  void do_closed(const Entry& e) {
    const ComputeWork& work = prices_.work(e.body, stage_.role);
    if (e.stream == kCompute) {
      ended_ = compute(ready_, work);
      return;
    }
    const double begin = std::max(ready_, stream(e.stream));
    ended_ = stream(e.stream) = begin + work.seconds;
    lane_.add({begin, ended_, {}, category_of_stream(p_, e.stream)});
  }

  /// The tasks of the body from the one it stopped at. False where one waits for other stages.
  bool do_open(const Entry& e, bool& moved) {
    const Body& body = nth(p_.bodies, e.body);
    if (task_ == 0) {
      ends_.assign(body.graph.size(), 0.0);
      ended_ = 0;
    }
    for (; task_ < ends_.size(); ++task_) {
      const Task& task = body.graph[task_];
      double at = ready_;
      for (const std::size_t before : body.graph.before(task_)) at = std::max(at, ends_[before]);
      if (p_.exprs.evaluate(task.predicate, prices_.context(stage_.role)) == 0) {
        ends_[task_] = at;
        continue;
      }
      if (!do_task(e, task, at, moved)) return false;
      ended_ = std::max(ended_, ends_[task_]);
    }
    return true;
  }

  bool do_task(const Entry& e, const Task& task, double at, bool& moved) {
    const auto v = static_cast<int>(task_);
    double& end = ends_[task_];
    if (const auto* c = std::get_if<CollectiveTask>(&task.kind)) return do_collective(e, task, *c, at, moved);
    const ComputeWork work = prices_.task(e.body, v, stage_.role);
    if (std::holds_alternative<ComputeTask>(task.kind) && task.stream == kCompute) {
      end = compute(at, work);
    } else {
      end = stream(task.stream) = std::max(at, stream(task.stream)) + work.seconds;
    }
    return true;
  }

  bool do_collective(const Entry& e, const Task& task, const CollectiveTask& c, double at, bool& moved) {
    double begin = std::max(at, stream(task.stream));
    const auto price = [&] { return prices_.collective(e.body, static_cast<int>(task_), stage_.role); };
    Transfer transfer;
    if (const int stages = meetings_.stages(c.group, prices_.rank_of(stage_.role)); stages > 1) {
      TailMeetings::Meeting& meeting = meetings_.at(c.group, nth(calls_, c.group));
      if (!posted_) {
        meeting.begin = std::max(meeting.begin, begin);
        ++meeting.arrived;
        posted_ = moved = true;
      }
      if (meeting.arrived < stages) return false;
      posted_ = false;
      ++nth(calls_, c.group);
      if (!std::exchange(meeting.priced, true)) meeting.transfer = price();
      begin = meeting.begin;
      transfer = meeting.transfer;
    } else {
      transfer = price();
    }
    ends_[task_] = stream(task.stream) = begin + transfer.seconds;
    lane_.add({begin, begin + transfer.seconds, transfer.load, category_of_stream(p_, task.stream)});
    return true;
  }

  static constexpr StreamId kCompute = 0;
  const Program& p_;
  const Stage& stage_;
  EstimatePrices& prices_;
  TailMeetings& meetings_;
  StageLane& lane_;
  EventTimes& events_;
  const Role& role_;
  std::vector<Queue> queues_;        ///< By stream.
  std::vector<char> recorded_here_;  ///< By event: the tail records it.
  std::size_t left_ = 0;
  const Entry* in_hand_ = nullptr;
  std::size_t task_ = 0;  ///< Next task of the open body in hand.
  bool posted_ = false;   ///< It is a call that others were told of.
  double ready_ = 0, ended_ = 0;
  double last_pass_ = lane_.free;
  StreamId dp_ = -1;
  std::vector<double> ends_;  ///< By task of the body in hand.
  std::vector<double> stream_free_;
  std::vector<int> calls_;
  Breakdown kernels_;
};

}  // namespace

std::vector<TailResult> walk_tails(const Program& program, const std::vector<Stage>& stages, EstimatePrices& prices,
                                   PipelineState& state) {
  TailMeetings meetings(program);
  std::vector<Tail> tails;
  for (std::size_t s = 0; s < stages.size(); ++s)
    tails.emplace_back(program, stages[s], prices, meetings, state.lanes[s], state.events[s]);
  const auto done = [](const Tail& t) { return t.done(); };
  while (!std::all_of(tails.begin(), tails.end(), done)) {
    bool moved = false;
    for (Tail& t : tails) moved |= t.advance();
    if (!moved) throw std::logic_error("the stages wait for each other after their last pass");
  }
  std::vector<TailResult> out;
  for (const Tail& t : tails) out.push_back(t.result());
  return out;
}

}  // namespace rehearse
