#include "core/estimate/quick/quick_tail.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "core/base/index.hpp"
#include "core/program/body.hpp"

namespace rehearse {

namespace {

constexpr StreamId kCompute = 0;

class TailCompiler {
 public:
  TailCompiler(const Program& p, const Stage& stage, EstimatePrices& prices, const std::vector<CallEnd>& calls,
               Meetings& meetings)
      : p_(p),
        stage_(stage),
        prices_(prices),
        meetings_(meetings),
        role_(nth(p.roles, stage.role)),
        queues_(p.streams.size()),
        before_(static_cast<std::size_t>(role_.events), Before::none),
        sides_of_(static_cast<std::size_t>(role_.events), 0),
        end_of_(static_cast<std::size_t>(role_.events), kUnknown),
        calls_(p.groups.size(), 0) {
    out_.streams = static_cast<int>(p.streams.size());
    out_.sides = side_streams(p);
    for (int i = 0; i < stage.tail; ++i) {
      const Entry& e = nth(role_.step, i);
      if (e.record >= 0) nth(before_, e.record) = e.stream == kCompute ? Before::pass : Before::held;
    }
    for (const auto& [event, sides] : calls) {
      nth(before_, event) = sides == 0 ? Before::pass : Before::call;
      nth(sides_of_, event) = sides;
    }
    for (std::size_t i = static_cast<std::size_t>(stage.tail); i < role_.step.size(); ++i) {
      const Entry& e = role_.step[i];
      if (p.exprs.evaluate(e.predicate, prices.context(stage.role)) == 0) continue;
      nth(queues_, e.stream).entries.push_back(&e);
      ++left_;
    }
  }

  QuickTail run(const std::vector<EventId>& needed) {
    for (; left_ > 0; --left_) compile(take());
    for (const EventId event : needed) {
      const int end = nth(end_of_, event);
      if (end < 0) throw std::logic_error("a step waits for an event that the one before does not end with");
      out_.ends.emplace_back(event, end);
    }
    for (const TailOperation& o : out_.operations)
      if (o.kind == TailOperation::Kind::kernels) out_.kernels += o.work.breakdown;
    merge();
    return std::move(out_);
  }

 private:
  enum class Before : unsigned char { none, pass, held, call };
  static constexpr int kUnknown = -1;
  struct Queue {
    std::vector<const Entry*> entries;
    std::size_t next = 0;
  };

  template <class Visit>
  void for_each_wait(const Entry& e, Visit visit) const {
    for (std::int32_t w = 0; w < e.wait_count; ++w) {
      const Wait& wait = nth(role_.waits, e.first_wait + w);
      if (wait.steps_back == 0) visit(static_cast<std::size_t>(wait.event));
    }
  }

  /// Streams beside compute go first, so that kernels meet the traffic they run beside.
  const Entry& take() {
    for (std::size_t s = queues_.size(); s-- > 0;) {
      Queue& q = queues_[s];
      if (q.next == q.entries.size()) continue;
      bool ready = true;
      for_each_wait(*q.entries[q.next],
                    [&](std::size_t event) { ready &= before_[event] != Before::none || end_of_[event] != kUnknown; });
      if (ready) return *q.entries[q.next++];
    }
    throw std::logic_error("a stage waits for itself after its last pass");
  }

  void compile(const Entry& e) {
    TailOperation first;
    for_each_wait(e, [&](std::size_t event) {
      if (end_of_[event] != kUnknown) first.after.push_back(end_of_[event]);
      first.after_pass |= before_[event] == Before::pass;
      first.after_held |= before_[event] == Before::held;
      first.after_calls |= sides_of_[event];
    });
    if (prices_.closed(e.body, stage_.role)) {
      first.kind = e.stream == kCompute ? TailOperation::Kind::kernels : TailOperation::Kind::other;
      first.stream = e.stream;
      first.category = category_of_stream(p_, e.stream);
      first.work = prices_.work(e.body, stage_.role);
      push(std::move(first));
    } else {
      compile_tasks(e, first);
    }
    if (e.record >= 0) nth(end_of_, e.record) = static_cast<int>(out_.operations.size()) - 1;
  }

  void compile_tasks(const Entry& e, const TailOperation& first) {
    const Body& body = nth(p_.bodies, e.body);
    std::vector<int> of_task;
    for (const auto v : body.graph.vertices()) {
      const Task& task = body.graph[v];
      TailOperation o = first;
      for (const std::size_t before : body.graph.before(v)) o.after.push_back(of_task[before]);
      if (p_.exprs.evaluate(task.predicate, prices_.context(stage_.role)) != 0)
        describe(e, static_cast<int>(v), task, o);
      of_task.push_back(push(std::move(o)));
    }
    if (of_task.size() == 1) return;
    TailOperation all;
    all.after = of_task;
    push(std::move(all));
  }

  void describe(const Entry& e, int v, const Task& task, TailOperation& o) {
    o.stream = task.stream;
    o.category = category_of_stream(p_, task.stream);
    if (const auto* c = std::get_if<CollectiveTask>(&task.kind)) {
      o.kind = TailOperation::Kind::transfer;
      const Transfer t = prices_.collective(e.body, v, stage_.role);
      o.work.seconds = t.seconds;
      o.load = t.load;
      if (spans_stages(c->group))
        o.meeting = meetings_.try_emplace({c->group, nth(calls_, c->group)++}, static_cast<int>(meetings_.size()))
                        .first->second;
      return;
    }
    o.work = prices_.task(e.body, v, stage_.role);
    const bool kernel = std::holds_alternative<ComputeTask>(task.kind) && task.stream == kCompute;
    o.kind = kernel ? TailOperation::Kind::kernels : TailOperation::Kind::other;
  }

  [[nodiscard]] bool spans_stages(int group) const {
    const GroupSpec& g = nth(p_.groups, group);
    if (!g.axes.contains(Axis::pp)) return false;
    const auto members = p_.mesh.members(g, prices_.rank_of(stage_.role), p_.exprs);
    return std::any_of(members.begin(), members.end(), [&](int m) { return nth(p_.role_of_rank, m) != stage_.role; });
  }

  int push(TailOperation o) {
    out_.operations.push_back(std::move(o));
    return static_cast<int>(out_.operations.size()) - 1;
  }

  /// Operations of one stream that nothing comes between become one.
  void merge() {
    const std::size_t n = out_.operations.size();
    std::vector<int> users(n, 0), renumbered(n, 0);
    for (const TailOperation& o : out_.operations)
      for (const int a : o.after) ++nth(users, a);
    for (const auto& [event, end] : out_.ends) ++nth(users, end);
    std::vector<TailOperation> kept;
    for (std::size_t i = 0; i < n; ++i) {
      TailOperation& o = out_.operations[i];
      for (int& a : o.after) a = nth(renumbered, a);
      std::sort(o.after.begin(), o.after.end());
      o.after.erase(std::unique(o.after.begin(), o.after.end()), o.after.end());
      if (i > 0 && users[i - 1] == 0 && joins(kept.back(), o))
        absorb(kept.back(), o);
      else
        kept.push_back(std::move(o));
      renumbered[i] = static_cast<int>(kept.size()) - 1;
    }
    for (auto& [event, end] : out_.ends) end = nth(renumbered, end);
    out_.operations = std::move(kept);
  }

  static bool joins(const TailOperation& a, const TailOperation& b) {
    using Kind = TailOperation::Kind;
    if (a.kind != b.kind || a.stream != b.stream || a.meeting >= 0 || b.meeting >= 0 ||
        (a.kind != Kind::kernels && a.kind != Kind::transfer))
      return false;
    const bool no_later =
        (a.after_pass || !b.after_pass) && (b.after_calls & ~a.after_calls) == 0 && (a.after_held || !b.after_held);
    return no_later && std::includes(a.after.begin(), a.after.end(), b.after.begin(), b.after.end());
  }

  static void absorb(TailOperation& a, const TailOperation& b) {
    const double all = a.work.seconds + b.work.seconds;
    if (all > 0) {
      a.load.sm_share = (a.load.sm_share * a.work.seconds + b.load.sm_share * b.work.seconds) / all;
      a.load.hbm_share = (a.load.hbm_share * a.work.seconds + b.load.hbm_share * b.work.seconds) / all;
    }
    a.work.append(b.work);
  }

  const Program& p_;
  const Stage& stage_;
  EstimatePrices& prices_;
  Meetings& meetings_;
  const Role& role_;
  std::vector<Queue> queues_;            ///< By stream.
  std::vector<Before> before_;           ///< By event: what recorded it before the tail.
  std::vector<std::uint32_t> sides_of_;  ///< By event with which a call of a pass ends.
  std::vector<int> end_of_;              ///< By event: the tail's operation.
  std::vector<int> calls_;
  std::size_t left_ = 0;
  QuickTail out_;
};

/// Goes on until the end or until a call waits for other stages. Returns whether it got anywhere.
bool advance(const QuickTail& tail, const std::vector<int>& sharing, std::vector<TailMeeting>& meetings, TailState& s) {
  bool moved = false;
  for (; s.next < tail.operations.size(); ++s.next, moved = true) {
    const TailOperation& o = tail.operations[s.next];
    double at = 0;
    if (o.after_pass) at = s.passes_end;
    for (std::uint32_t left = o.after_calls; left != 0; left &= left - 1)
      at = std::max(at, nth(s.side_ends, std::countr_zero(left)));
    if (o.after_held) at = std::max(at, s.lane.held);
    for (const int a : o.after) at = std::max(at, nth(s.ends, a));
    double& end = s.ends[s.next];
    if (o.kind == TailOperation::Kind::join) {
      end = at;
      continue;
    }
    if (o.kind == TailOperation::Kind::kernels) {
      s.lane.wait_beside(at, TimeCategory::exposed_tp, TimeCategory::exposed_dp);
      s.lane.compute(o.work, o.work.seconds);
      s.lane.prune();
      end = s.lane.free;
      continue;
    }
    double& stream = nth(s.streams, o.stream);
    double begin = std::max(at, stream);
    if (o.meeting >= 0 && nth(sharing, o.meeting) > 1) {
      TailMeeting& meeting = nth(meetings, o.meeting);
      if (!s.posted) {
        meeting.begin = std::max(meeting.begin, begin);
        ++meeting.arrived;
        s.posted = moved = true;
      }
      if (meeting.arrived < nth(sharing, o.meeting)) return moved;
      s.posted = false;
      begin = meeting.begin;
    }
    end = stream = begin + o.work.seconds;
    s.lane.add({begin, end, o.load, o.category});
  }
  return moved;
}

}  // namespace

double TailState::end() const {
  double out = std::max(lane.free, lane.held);
  for (const double s : streams) out = std::max(out, s);
  return out;
}

QuickTail compile_tail(const Program& program, const Stage& stage, EstimatePrices& prices,
                       const std::vector<CallEnd>& calls, const std::vector<EventId>& needed, Meetings& meetings) {
  return TailCompiler(program, stage, prices, calls, meetings).run(needed);
}

void walk_tails(const std::vector<const QuickTail*>& tails, const std::vector<int>& sharing,
                std::vector<TailMeeting>& meetings, std::vector<TailState>& states) {
  meetings.assign(sharing.size(), {});
  for (std::size_t k = 0; k < tails.size(); ++k) {
    TailState& s = states[k];
    s.ends.assign(tails[k]->operations.size(), 0.0);
    s.streams.assign(static_cast<std::size_t>(tails[k]->streams), 0.0);
    for (std::size_t side = 0; side < std::min<std::size_t>(kSides, tails[k]->sides.size()); ++side)
      nth(s.streams, tails[k]->sides[side]) = s.side_ends[side];
    s.passes_end = s.lane.free;
    s.next = 0;
    s.posted = false;
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t k = 0; k < tails.size(); ++k) moved |= advance(*tails[k], sharing, meetings, states[k]);
  }
  for (std::size_t k = 0; k < tails.size(); ++k)
    if (states[k].next < tails[k]->operations.size())
      throw std::logic_error("the stages wait for each other after their last pass");
}

}  // namespace rehearse
