#include "core/play/player/compiled_role.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <boost/container/small_vector.hpp>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/stop.hpp"
#include "core/play/player/body_expressions.hpp"
#include "core/play/player/closed_body.hpp"
#include "core/play/player/role_operations.hpp"
#include "core/price/body_play.hpp"
#include "core/program/body.hpp"

namespace rehearse {

std::size_t end_of_segment(const Body& body, std::size_t i) {
  // Segment i ends where the next begins; `segments` lists beginnings, 0 among them or not.
  const std::size_t skip = !body.segments.empty() && body.segments.front() == 0 ? 1 : 0;
  return i + skip < body.segments.size() ? static_cast<std::size_t>(body.segments[i + skip]) : body.graph.size();
}

namespace {

Error unplayable(const Role& role, int entry, const std::string& why) {
  return {ErrorKind::usage, fmt::format("{}, entry {}: {}", role.name, entry, why), "program"};
}

class Compiler {
 public:
  Compiler(const Program& p, const CostModel& cost, int rank, const RunOptions& options, WholeBodies* whole)
      : p_(p),
        cost_(cost),
        options_(options),
        whole_(whole),
        rank_(rank),
        at_(p.mesh.context(rank)),
        role_(nth(p.roles, nth(p.role_of_rank, rank))),
        operations_(p.streams.size(), cost.launch_overhead(p, rank).value()),
        varies_(p.bodies.size(), -1),
        price_of_body_(p.bodies.size(), kNotAsked) {}

  CompiledRole run() {
    at_.tables = &p_.tables;
    at_.microbatches = role_.microbatches > 0 ? role_.microbatches : p_.microbatches;
    operations_.reserve(role_.step.size() * static_cast<std::size_t>(options_.steps));
    out_.parts.reserve(role_.step.size() * static_cast<std::size_t>(options_.steps));
    for (step_ = 0; step_ < options_.steps; ++step_) {
      events_.emplace_back(static_cast<std::size_t>(role_.events));
      graph_ = -1;
      for (int i = 0; i < static_cast<int>(role_.step.size());) {
        check_stop();
        i += add_at(i);
      }
    }
    operations_.finish(out_);
    return std::move(out_);
  }

 private:
  /// Body; layer, chunk, microbatch, pass, copy and step where calls differ by them; launches.
  using CallKey = std::tuple<int, std::array<int, 6>, int>;
  using Index = RoleOperations::Index;
  using Indices = boost::container::small_vector<Index, 4>;
  static std::span<const Index> view(const Indices& i) { return {i.data(), i.size()}; }
  /// What a call has done on one stream.
  struct OnStream {
    bool entered = false;
    Indices waits{};  // That no operation of it has taken yet.
    Index tail = -1;
  };
  struct TaskByTask {
    int index;
    const Entry& entry;
    const Body& body;
    double stretch = 1;  // Of its kernels, where launches hold them up.
  };
  /// A call that is played task by task, as far as it has been issued.
  struct OpenCall : TaskByTask {
    Indices waits;
    std::size_t next = 0;  // Task.
    // What stands for each task to those after it: its operation, or what it would have waited for where it is skipped.
    std::vector<Indices> stands{};
    std::vector<OnStream> streams;
  };

  const Entry& entry(int i) const { return nth(role_.step, i); }
  const Body& body_of(const Entry& e) const { return nth(p_.bodies, e.body); }

  void stand_at(const Entry& e) {
    at_.layer = e.layer;
    at_.chunk = e.chunk;
    at_.microbatch = e.microbatch;
    at_.pass = e.pass;
    at_.copy = e.copy;
    at_.step = step_;
  }
  bool runs(const Entry& e) {
    stand_at(e);
    return p_.exprs.evaluate(e.predicate, at_) != 0;
  }

  /// Adds entry `i`, with the next where the two are interleaved, and returns how many those are.
  int add_at(int i) {
    const Entry& e = entry(i);
    if (e.interleave < 0) {
      add_entry(i);
      return 1;
    }
    if (e.interleave != i + 1 || i + 1 >= static_cast<int>(role_.step.size()) || entry(i + 1).interleave != i)
      throw unplayable(role_, i, "interleaved entries are neighbours that name each other");
    const bool first = runs(e), second = runs(entry(i + 1));
    if (first && second) {
      add_interleaved(i);
    } else {
      add_entry(i);
      add_entry(i + 1);
    }
    return 2;
  }

  /// A call is an operation of its own unless something refers to its tasks.
  bool names_tasks(const Entry& e) const {
    const auto first = role_.waits.begin() + e.first_wait;
    return e.mark_count > 0 || std::any_of(first, first + e.wait_count, [](const Wait& w) { return w.task >= 0; });
  }

  bool varies(const Entry& e) {
    signed char& known = nth(varies_, e.body);
    if (known < 0) known = varies_by_call(p_, body_of(e)) ? 1 : 0;
    return known != 0;
  }

  CallKey key_of(const Entry& e, int launches) {
    CallKey key{e.body, {}, launches};
    if (varies(e)) std::get<1>(key) = {e.layer, e.chunk, e.microbatch, e.pass, e.copy, step_};
    return key;
  }

  double stretch_of(const Entry& e, int launches) {
    const auto [known, fresh] = stretches_.try_emplace(key_of(e, launches), 1.0);
    if (fresh) known->second = launch_stretch(p_, cost_, body_of(e), rank_, at_, launches);
    return known->second;
  }

  /// Index into prices_, -1 for bodies that leave the rank's own wires. Calls that cannot differ share one price.
  /// Kernels of a captured graph cost no launch but its first entry's: one for the whole graph.
  int price_of(const Entry& e, int launches) {
    if (launches == CostModel::kOncePerKernel && !varies(e)) {
      int& price = nth(price_of_body_, e.body);
      if (price == kNotAsked) price = priced(e, launches);
      return price;
    }
    const auto [at, fresh] = closed_.try_emplace(key_of(e, launches), -1);
    if (fresh) at->second = priced(e, launches);
    return at->second;
  }

  int priced(const Entry& e, int launches) {
    const Body& body = body_of(e);
    if (whole_ != nullptr) {
      const PricedBody* price = whole_->price({e.body, rank_, at_, varies(e), launches});
      if (price == nullptr) return -1;
      prices_.push_back(*price);
    } else if (is_closed(p_, cost_.cluster(), body, rank_)) {
      prices_.push_back(cost_.price_body(p_, body, rank_, at_, launches));
      check_floor(body);
    } else {
      return -1;
    }
    return static_cast<int>(prices_.size()) - 1;
  }

  void check_floor(const Body& body) {
    for (const auto v : body.graph.vertices()) {
      const Task& task = body.graph[v];
      if (!std::holds_alternative<ComputeTask>(task.kind)) continue;
      const PricedTask t = cost_.price(p_, task, body, rank_, at_);
      if (t.time < t.floor * (1 - 1e-9))
        out_.breaches.push_back({"roofline", fmt::format("{}, task {}: {} is below the floor of {}", body.name,
                                                         task.name, to_string(t.time), to_string(t.floor))});
    }
  }

  void add_entry(int index) {
    const Entry& e = entry(index);
    if (!runs(e)) return;
    const int launches = e.graph < 0 ? CostModel::kOncePerKernel : e.graph == std::exchange(graph_, e.graph) ? 0 : 1;
    if (e.graph < 0) graph_ = -1;
    const int price = names_tasks(e) ? -1 : price_of(e, launches);
    const bool opens = price < 0 || (options_.all_flows && !only_computes(body_of(e)));
    Indices tails;
    if (opens && body_of(e).graph.size() == 1) {
      tails = add_single(index, e, launches);
    } else if (opens) {
      OpenCall call = open(index);
      call.stretch = stretch_of(e, launches);
      issue(call, call.body.graph.size());
      tails = close(call);
    } else {
      tails = {add_closed(index, e, price, waits_of(e, -1))};
    }
    complete(e, tails);
  }

  /// A call of one task, as messages and reductions are. Where that is skipped, what it would wait for stands for it.
  Indices add_single(int index, const Entry& e, int launches) {
    const Body& body = body_of(e);
    const Task& task = body.graph[0];
    Indices tails = waits_of(e, -1);
    const Indices own = waits_of(e, 0);
    tails.insert(tails.end(), own.begin(), own.end());
    if (p_.exprs.evaluate(task.predicate, at_) != 0) {
      const bool computes = std::holds_alternative<ComputeTask>(task.kind);
      tails = {add_task({index, e, body, computes ? stretch_of(e, launches) : 1.0}, 0, tails, 0)};
      if (task.host_wait) operations_.host_waits_for(view(tails));
    }
    for (std::int32_t m = 0; m < e.mark_count; ++m) event(nth(role_.marks, e.first_mark + m).event) = tails;
    return tails;
  }

  void complete(const Entry& e, const Indices& tails) {
    if (e.record >= 0) event(e.record) = tails;
    if (e.host_wait) operations_.host_waits_for(view(tails));
  }

  /// Segments of the two calls in turn, from the first one's place and beginning with the second's. A backward begins
  /// with an exchange, beside which the forward's first piece computes, and so on (NVIDIA/Megatron-LM,
  /// models/common/model_chunk_schedule_plan.py: combine backward beside attention forward, dispatch forward beside
  /// experts backward, dispatch backward beside experts forward, combine forward beside attention backward).
  void add_interleaved(int index) {
    const Entry& first = entry(index);
    const Entry& second = entry(index + 1);
    for (std::int32_t w = 0; w < second.wait_count; ++w) {
      const Wait& wait = nth(role_.waits, second.first_wait + w);
      const auto marked = [&](std::int32_t m) { return nth(role_.marks, first.first_mark + m).event == wait.event; };
      bool own = wait.event == first.record;
      for (std::int32_t m = 0; m < first.mark_count; ++m) own = own || marked(m);
      if (own && wait.steps_back == 0)
        throw unplayable(role_, index + 1, "an entry cannot wait for the one it is interleaved with");
    }
    graph_ = -1;
    if (add_pair(index)) return;
    std::array calls{open(index), open(index + 1)};
    for (OpenCall& call : calls) {
      stand_at(call.entry);
      call.stretch = stretch_of(call.entry, CostModel::kOncePerKernel);
    }
    for (std::size_t segment = 0; calls[0].next < size_of(calls[0]) || calls[1].next < size_of(calls[1]); ++segment)
      for (OpenCall* call : {&calls[1], &calls[0]}) {
        stand_at(call->entry);
        issue(*call, end_of_segment(call->body, segment));
      }
    for (OpenCall& call : calls) complete(call.entry, close(call));
  }

  /// Two interleaved calls in up to three pieces, one after the other: until the later one begins, until the earlier
  /// one ends, and the rest.
  struct Pieces {
    std::vector<int> prices;                    ///< Index into prices_; none where the calls are issued task by task.
    std::array<std::size_t, 2> begin{}, end{};  ///< By call: the piece that it begins with, and that it ends with.
  };

  /// Adds the two calls as one play, where they are one.
  bool add_pair(int index) {
    const std::array entries{&entry(index), &entry(index + 1)};
    if (whole_ == nullptr || names_tasks(*entries[0]) || names_tasks(*entries[1])) return false;
    const Pieces& pieces = pieces_of(*entries[0], *entries[1]);
    for (std::size_t i = 0; i < pieces.prices.size(); ++i) {
      Indices waits;
      for (const std::size_t k : {0, 1}) {
        if (pieces.begin[k] != i) continue;
        const Indices own = waits_of(*entries[k], -1);
        waits.insert(waits.end(), own.begin(), own.end());
      }
      const Indices tails{add_closed(index, *entries[0], pieces.prices[i], waits)};
      for (const std::size_t k : {0, 1})
        if (pieces.end[k] == i) complete(*entries[k], tails);
    }
    return !pieces.prices.empty();
  }

  const Pieces& pieces_of(const Entry& first, const Entry& second) {
    constexpr int kLaunches = CostModel::kOncePerKernel;
    const auto [at, fresh] = pairs_.try_emplace({key_of(first, kLaunches), key_of(second, kLaunches)});
    if (!fresh) return at->second;
    stand_at(first);
    const ExprContext there = at_;
    stand_at(second);
    const WholeBodies::Pair* pair = whole_->price_pair({first.body, rank_, there, varies(first), kLaunches},
                                                       {second.body, rank_, at_, varies(second), kLaunches});
    if (pair != nullptr) at->second = cut(*pair);
    return at->second;
  }

  Pieces cut(const WholeBodies::Pair& pair) {
    const Seconds all = pair.both.duration;
    std::vector<Seconds> cuts{Seconds{0}, all, max(pair.begin[0], pair.begin[1]), min(pair.end[0], pair.end[1])};
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    Pieces out;
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      out.prices.push_back(static_cast<int>(prices_.size()));
      prices_.push_back(pair.both);
      prices_.back().duration = cuts[i + 1] - cuts[i];
      prices_.back().breakdown *= prices_.back().duration / all;
      for (const std::size_t k : {0, 1}) {
        if (pair.begin[k] >= cuts[i]) out.begin[k] = i;
        if (pair.end[k] > cuts[i]) out.end[k] = i;
      }
    }
    return out;
  }

  static std::size_t size_of(const OpenCall& call) { return call.body.graph.size(); }

  Indices& event(EventId id) { return nth(events_.back(), id); }

  /// Operations that one task of the call waits for by name, or, for task -1, those that every stream's first task
  /// waits for.
  Indices waits_of(const Entry& e, std::int32_t task) const {
    Indices waits;
    for (std::int32_t w = 0; w < e.wait_count; ++w) {
      const Wait& wait = nth(role_.waits, e.first_wait + w);
      if (wait.task != task || wait.steps_back > step_) continue;
      const auto& from = nth(nth(events_, step_ - wait.steps_back), wait.event);
      waits.insert(waits.end(), from.begin(), from.end());
    }
    return waits;
  }

  Index add_closed(int index, const Entry& e, int price, const Indices& waits) {
    const PricedBody& body = nth(prices_, price);
    PlayOp op;
    op.stream = e.stream;
    op.duration = body.duration.value();
    op.sm_sensitivity = body.sm_sensitivity;
    op.hbm_sensitivity = body.hbm_sensitivity;
    op.first_entry = static_cast<std::int32_t>(out_.parts.size());
    op.entry_count = 1;
    // One breakdown per price is enough until runs are merged.
    const auto [at, fresh] = breakdown_of_.try_emplace(price, static_cast<int>(out_.breakdowns.size()));
    if (fresh) out_.breakdowns.push_back(body.breakdown);
    op.price = at->second;
    out_.parts.push_back({index, -1, op.duration});
    return operations_.push(op, view(waits), step_);
  }

  OpenCall open(int index) {
    const Entry& e = entry(index);
    return {{index, e, body_of(e)}, waits_of(e, -1), 0, {}, std::vector<OnStream>(p_.streams.size())};
  }

  /// Issues the tasks of the call before `until`.
  void issue(OpenCall& call, std::size_t until) {
    for (; call.next < until; ++call.next) {
      const std::size_t v = call.next;
      const Task& task = call.body.graph[v];
      Indices after = waits_of(call.entry, static_cast<std::int32_t>(v));
      std::uint16_t causes = 0;
      for (const std::size_t before : call.body.graph.before(v))
        for (const Index from : call.stands[before]) {
          after.push_back(from);
          causes |= operations_.cause_streams(from);
        }
      OnStream& on = nth(call.streams, task.stream);
      if (!std::exchange(on.entered, true)) on.waits = call.waits;
      if (p_.exprs.evaluate(task.predicate, at_) == 0) {
        on.waits.insert(on.waits.end(), after.begin(), after.end());
        call.stands.push_back(on.waits);
        if (on.tail >= 0) call.stands.back().push_back(on.tail);
        continue;
      }
      after.insert(after.end(), on.waits.begin(), on.waits.end());
      on.waits.clear();
      on.tail = add_task(call, static_cast<std::int32_t>(v), after, causes);
      call.stands.push_back({on.tail});
      if (task.host_wait) operations_.host_waits_for(view(call.stands.back()));
    }
  }

  /// What the call ends with.
  Indices close(OpenCall& call) {
    for (std::int32_t m = 0; m < call.entry.mark_count; ++m) {
      const Mark& mark = nth(role_.marks, call.entry.first_mark + m);
      event(mark.event) = call.stands.at(static_cast<std::size_t>(mark.task));
    }
    Indices tails;
    for (const OnStream& on : call.streams) {
      if (on.tail >= 0) tails.push_back(on.tail);
      tails.insert(tails.end(), on.waits.begin(), on.waits.end());
    }
    return tails;
  }

  Index add_task(const TaskByTask& call, std::int32_t v, const Indices& after, std::uint16_t causes) {
    const auto key = std::tuple(call.entry.body, v, call.stretch);
    const bool same = !varies(call.entry);
    const auto known = same ? tasks_.find(key) : tasks_.end();
    PlayOp op = known != tasks_.end() ? known->second : make_task(call, v);
    if (same && known == tasks_.end()) tasks_.emplace(key, op);
    op.cause_streams = op.kind == PlayOp::Kind::compute ? 0 : causes;
    op.first_entry = static_cast<std::int32_t>(out_.parts.size());
    if (op.kind == PlayOp::Kind::collective) op.ordinal = calls_[op.group]++;
    out_.parts.push_back({call.index, v, op.duration});
    return operations_.push(op, view(after), step_);
  }

  PlayOp make_task(const TaskByTask& call, std::int32_t v) {
    const Body& body = call.body;
    const Task& task = nth(body.graph, v);
    PlayOp op;
    op.stream = task.stream;
    op.category = category_of_stream(p_, task.stream);
    op.entry_count = 1;
    if (const auto* c = std::get_if<CollectiveTask>(&task.kind)) {
      op.kind = PlayOp::Kind::collective;
      op.group = c->group;
      op.collective = c->op;
      op.packed = c->packed;
      op.direct = c->direct;
      op.bytes = CostModel::collective_bytes(p_, task, body, at_).value();
    } else if (const auto* m = std::get_if<P2pTask>(&task.kind)) {
      op.kind = m->direction == P2pTask::Direction::send ? PlayOp::Kind::send : PlayOp::Kind::receive;
      op.group = endpoint({m->edge, m->group, static_cast<std::int32_t>(p_.exprs.evaluate(m->peer, at_))});
      for (const Operand& o : task.operands)
        op.bytes += p_.local_bytes(nth(p_.tensors, nth(body.formals, o.formal).like), at_);
    } else {
      price_task(op, call, task);
    }
    return op;
  }

  void price_task(PlayOp& op, const TaskByTask& call, const Task& task) {
    const PricedTask t = cost_.price(p_, task, call.body, rank_, at_);
    op.kind = std::holds_alternative<ComputeTask>(task.kind) ? PlayOp::Kind::compute : PlayOp::Kind::timer;
    op.sm_sensitivity = t.sm_sensitivity;
    op.hbm_sensitivity = t.hbm_sensitivity;
    op.duration = t.time.value();
    if (op.kind != PlayOp::Kind::compute) return;
    if (t.time < t.floor * (1 - 1e-9)) out_.breaches.push_back({"roofline", call.body.name + ", task " + task.name});
    op.duration *= call.stretch;
    op.price = static_cast<std::int32_t>(out_.breakdowns.size());
    Breakdown b;
    b[t.category] = t.time;
    b[TimeCategory::launch] += t.time * (call.stretch - 1);
    out_.breakdowns.push_back(b);
  }

  std::int32_t endpoint(const CompiledRole::Endpoint& wanted) {
    for (std::size_t i = 0; i < out_.endpoints.size(); ++i) {
      const auto& have = out_.endpoints[i];
      if (have.edge == wanted.edge && have.group == wanted.group && have.peer == wanted.peer)
        return static_cast<std::int32_t>(i);
    }
    out_.endpoints.push_back(wanted);
    return static_cast<std::int32_t>(out_.endpoints.size()) - 1;
  }

  const Program& p_;
  const CostModel& cost_;
  const RunOptions& options_;
  WholeBodies* whole_;
  int rank_;
  ExprContext at_;
  const Role& role_;
  CompiledRole out_;
  RoleOperations operations_;
  int step_ = 0;
  int graph_ = -1;                            // Of the entry before.
  std::vector<std::vector<Indices>> events_;  // Per step and event: the operations it completes with.
  std::map<CallKey, int> closed_;
  std::map<std::pair<CallKey, CallKey>, Pieces> pairs_;
  std::map<CallKey, double> stretches_;
  static constexpr int kNotAsked = -2;
  std::vector<signed char> varies_;  // By body; -1 where not asked yet.
  std::vector<int> price_of_body_;   // By body: as closed_, where its calls are alike and launched kernel by kernel.
  std::map<int, int> breakdown_of_, calls_;
  std::map<std::tuple<int, std::int32_t, double>, PlayOp> tasks_;  // Of bodies whose calls are alike.
  std::vector<PricedBody> prices_;
};

}  // namespace

CompiledRole compile_role(const Program& program, const CostModel& cost, int rank, const RunOptions& options,
                          WholeBodies* whole) {
  return Compiler(program, cost, rank, options, whole).run();
}

}  // namespace rehearse
