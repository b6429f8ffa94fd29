#include "core/backend/compiled_role.hpp"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "core/backend/body_expressions.hpp"
#include "core/units/error.hpp"

namespace rehearse {

bool is_closed(const Program& p, const Cluster& cluster, const Body& body, int rank) {
  for (const auto v : boost::make_iterator_range(boost::vertices(body.graph))) {
    const Task& task = body.graph[v];
    if (std::holds_alternative<ComputeTask>(task.kind)) continue;
    const auto* c = std::get_if<CollectiveTask>(&task.kind);
    if (c == nullptr) return false;
    if (p.streams[static_cast<std::size_t>(task.stream)].rfind("dp", 0) == 0) return false;
    const auto members = p.mesh.members(p.groups[static_cast<std::size_t>(c->group)], rank, p.exprs);
    const auto node = [&](int r) { return cluster.node_of(p.device_of_rank[static_cast<std::size_t>(r)]); };
    if (std::any_of(members.begin(), members.end(), [&](int r) { return node(r) != node(rank); })) return false;
  }
  return true;
}

namespace {

/// Whether calls of the body on one rank can differ.
bool varies_by_call(const Program& p, const Body& body) {
  constexpr std::array kOfCall{Var::layer, Var::chunk, Var::microbatch, Var::pass, Var::copy, Var::step};
  return any_expression(p, body, [&](ExprId id) {
    return std::any_of(kOfCall.begin(), kOfCall.end(), [&](Var v) { return p.exprs.depends_on(id, v); });
  });
}

class Compiler {
 public:
  Compiler(const Program& p, const CostModel& cost, int rank)
      : p_(p), cost_(cost), rank_(rank), at_(p.mesh.context(rank)), role_(p.roles[static_cast<std::size_t>(p.role_of_rank[static_cast<std::size_t>(rank)])]) {}

  CompiledRole run(int steps) {
    at_.tables = &p_.tables;
    at_.microbatches = role_.microbatches > 0 ? role_.microbatches : p_.microbatches;
    last_on_stream_.assign(p_.streams.size(), -1);
    for (int s = 0; s < steps; ++s) {
      step_ = s;
      events_.emplace_back(static_cast<std::size_t>(role_.events));
      for (std::size_t i = 0; i < role_.step.size(); ++i) add_entry(static_cast<int>(i));
    }
    merge_runs();
    link();
    return std::move(out_);
  }

 private:
  struct Raw { PlayOp op; std::vector<std::int32_t> after; };

  /// A call is an operation of its own unless something refers to its tasks.
  bool names_tasks(const Entry& e) const {
    const auto first = role_.waits.begin() + e.first_wait;
    return e.mark_count > 0 || std::any_of(first, first + e.wait_count, [](const Wait& w) { return w.task >= 0; });
  }

  /// Index into prices_, -1 for calls that are played task by task. Calls that cannot differ share one price.
  int price_of(const Entry& e) {
    if (names_tasks(e)) return -1;
    const auto [known, unknown] = varies_.try_emplace(e.body, false);
    const Body& body = p_.bodies[static_cast<std::size_t>(e.body)];
    if (unknown) known->second = varies_by_call(p_, body);
    CallKey key{e.body, {}};
    if (known->second) key.second = {e.layer, e.chunk, e.microbatch, e.pass, e.copy, step_};
    const auto [at, fresh] = closed_.try_emplace(key, -1);
    if (!fresh) return at->second;
    if (!is_closed(p_, cost_.cluster(), body, rank_)) return at->second;
    at->second = static_cast<int>(prices_.size());
    prices_.push_back(cost_.price_body(p_, body, rank_, at_));
    check_floor(body);
    return at->second;
  }

  void check_floor(const Body& body) {
    for (const auto v : boost::make_iterator_range(boost::vertices(body.graph))) {
      const Task& task = body.graph[v];
      if (!std::holds_alternative<ComputeTask>(task.kind)) continue;
      const PricedTask t = cost_.price(p_, task, body, rank_, at_);
      if (t.time < t.floor * (1 - 1e-9))
        out_.breaches.push_back({"roofline", fmt::format("{}, task {}: {} is below the floor of {}", body.name, task.name, to_string(t.time), to_string(t.floor))});
    }
  }

  void add_entry(int index) {
    const Entry& e = role_.step[static_cast<std::size_t>(index)];
    if (e.interleave >= 0 || e.graph >= 0 || e.host_wait)
      throw Error(ErrorKind::unavailable, fmt::format("{}, entry {}: interleaved entries, captured graphs and host waits cannot be played", role_.name, index));
    at_.layer = e.layer;
    at_.chunk = e.chunk;
    at_.microbatch = e.microbatch;
    at_.pass = e.pass;
    at_.copy = e.copy;
    at_.step = step_;
    if (p_.exprs.evaluate(e.predicate, at_) == 0) return;
    const int price = price_of(e);
    const std::vector<std::int32_t> tails = price >= 0 ? std::vector{add_closed(index, e, price, waits_of(e, -1))} : add_open(index, e);
    if (e.record >= 0) event(e.record) = tails;
  }

  std::vector<std::int32_t>& event(EventId id) { return events_.back()[static_cast<std::size_t>(id)]; }

  /// Operations that one task of the call waits for by name, or, for task -1, those that every stream's first task waits for.
  std::vector<std::int32_t> waits_of(const Entry& e, std::int32_t task) const {
    std::vector<std::int32_t> waits;
    for (std::int32_t w = 0; w < e.wait_count; ++w) {
      const Wait& wait = role_.waits[static_cast<std::size_t>(e.first_wait + w)];
      if (wait.task != task || wait.steps_back > step_) continue;
      const auto& from = events_[static_cast<std::size_t>(step_ - wait.steps_back)][static_cast<std::size_t>(wait.event)];
      waits.insert(waits.end(), from.begin(), from.end());
    }
    return waits;
  }

  std::int32_t push(PlayOp op, std::vector<std::int32_t> after) {
    auto& last = last_on_stream_[static_cast<std::size_t>(op.stream)];
    if (last >= 0) after.push_back(last);
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    op.step = step_;
    op.cause_streams |= static_cast<std::uint16_t>(1u << static_cast<unsigned>(op.stream));
    last = static_cast<std::int32_t>(raw_.size());
    raw_.push_back({op, std::move(after)});
    return last;
  }

  std::int32_t add_closed(int index, const Entry& e, int price, const std::vector<std::int32_t>& waits) {
    const PricedBody& body = prices_[static_cast<std::size_t>(price)];
    PlayOp op;
    op.stream = e.stream;
    op.duration = body.duration.value();
    op.sm_sensitivity = body.sm_sensitivity;
    op.hbm_sensitivity = body.hbm_sensitivity;
    op.price = static_cast<std::int32_t>(out_.breakdowns.size());
    op.first_entry = static_cast<std::int32_t>(out_.parts.size());
    op.entry_count = 1;
    // One breakdown per body is enough until runs are merged.
    const auto [at, fresh] = breakdown_of_.try_emplace(price, op.price);
    if (fresh) out_.breakdowns.push_back(body.breakdown);
    op.price = at->second;
    out_.parts.push_back({index, -1, op.duration});
    return push(op, waits);
  }

  std::vector<std::int32_t> add_open(int index, const Entry& e) {
    const Body& body = p_.bodies[static_cast<std::size_t>(e.body)];
    const std::vector<std::int32_t> waits = waits_of(e, -1);
    // What stands for each task to those after it: its operation, or what it would have waited for where it is skipped.
    std::vector<std::vector<std::int32_t>> stands;
    std::map<StreamId, std::vector<std::int32_t>> entered;  // Per stream, waits that no operation of it has taken yet.
    std::map<StreamId, std::int32_t> tail;
    for (const auto v : boost::make_iterator_range(boost::vertices(body.graph))) {
      const Task& task = body.graph[v];
      std::vector<std::int32_t> after = waits_of(e, static_cast<std::int32_t>(v));
      std::uint16_t causes = 0;
      for (const auto in : boost::make_iterator_range(boost::in_edges(v, body.graph)))
        for (const std::int32_t from : stands[boost::source(in, body.graph)]) {
          after.push_back(from);
          causes |= raw_[static_cast<std::size_t>(from)].op.cause_streams;
        }
      std::vector<std::int32_t>& pending = entered.try_emplace(task.stream, waits).first->second;
      if (p_.exprs.evaluate(task.predicate, at_) == 0) {
        pending.insert(pending.end(), after.begin(), after.end());
        stands.push_back(pending);
        if (const auto before = tail.find(task.stream); before != tail.end()) stands.back().push_back(before->second);
        continue;
      }
      after.insert(after.end(), pending.begin(), pending.end());
      pending.clear();
      tail[task.stream] = add_task(index, body, task, static_cast<std::int32_t>(v), after, causes);
      stands.push_back({tail[task.stream]});
    }
    for (std::int32_t m = 0; m < e.mark_count; ++m) {
      const Mark& mark = role_.marks[static_cast<std::size_t>(e.first_mark + m)];
      event(mark.event) = stands.at(static_cast<std::size_t>(mark.task));
    }
    std::vector<std::int32_t> tails;
    for (const auto& [stream, op] : tail) tails.push_back(op);
    for (const auto& [stream, pending] : entered) tails.insert(tails.end(), pending.begin(), pending.end());
    return tails;
  }

  std::int32_t add_task(int index, const Body& body, const Task& task, std::int32_t v, const std::vector<std::int32_t>& after, std::uint16_t causes) {
    PlayOp op;
    op.stream = task.stream;
    op.cause_streams = std::holds_alternative<ComputeTask>(task.kind) ? 0 : causes;
    op.category = category_of_stream(p_, task.stream);
    op.first_entry = static_cast<std::int32_t>(out_.parts.size());
    op.entry_count = 1;
    if (const auto* c = std::get_if<CollectiveTask>(&task.kind)) {
      op.kind = PlayOp::Kind::collective;
      op.group = c->group;
      op.collective = c->op;
      op.ordinal = calls_[c->group]++;
      op.bytes = CostModel::collective_bytes(p_, task, body, at_).value();
    } else if (const auto* m = std::get_if<P2pTask>(&task.kind)) {
      op.kind = m->direction == P2pTask::Direction::send ? PlayOp::Kind::send : PlayOp::Kind::receive;
      op.group = endpoint({m->edge, m->group, static_cast<std::int32_t>(p_.exprs.evaluate(m->peer, at_))});
      for (const Operand& o : task.operands)
        op.bytes += p_.local_bytes(p_.tensors[static_cast<std::size_t>(body.formals[static_cast<std::size_t>(o.formal)].like)], at_);
    } else {
      const PricedTask t = cost_.price(p_, task, body, rank_, at_);
      op.kind = std::holds_alternative<ComputeTask>(task.kind) ? PlayOp::Kind::compute : PlayOp::Kind::timer;
      op.duration = t.time.value();
      op.sm_sensitivity = t.sm_sensitivity;
      op.hbm_sensitivity = t.hbm_sensitivity;
      if (op.kind == PlayOp::Kind::compute) {
        if (t.time < t.floor * (1 - 1e-9)) out_.breaches.push_back({"roofline", body.name + ", task " + task.name});
        op.price = static_cast<std::int32_t>(out_.breakdowns.size());
        Breakdown b;
        b[t.category] = t.time;
        out_.breakdowns.push_back(b);
      }
    }
    out_.parts.push_back({index, v, op.duration});
    return push(op, after);
  }

  std::int32_t endpoint(const CompiledRole::Endpoint& wanted) {
    for (std::size_t i = 0; i < out_.endpoints.size(); ++i) {
      const auto& have = out_.endpoints[i];
      if (have.edge == wanted.edge && have.group == wanted.group && have.peer == wanted.peer) return static_cast<std::int32_t>(i);
    }
    out_.endpoints.push_back(wanted);
    return static_cast<std::int32_t>(out_.endpoints.size()) - 1;
  }

  /// Joins an operation to its only predecessor when that has no other successor and both compute on one stream.
  void merge_runs() {
    const std::size_t n = raw_.size();
    std::vector<std::int32_t> successors(n, 0), into(n);
    for (const Raw& r : raw_)
      for (const std::int32_t a : r.after) ++successors[static_cast<std::size_t>(a)];
    std::vector<Raw> merged;
    std::vector<CompiledRole::Part> parts;
    for (std::size_t i = 0; i < n; ++i) {
      Raw& r = raw_[i];
      for (std::int32_t& a : r.after) a = into[static_cast<std::size_t>(a)];
      const bool joins = r.op.kind == PlayOp::Kind::compute && r.after.size() == 1 && last_raw_of_.count(r.after[0]) != 0 &&
                         successors[static_cast<std::size_t>(last_raw_of_[r.after[0]])] == 1 &&
                         merged[static_cast<std::size_t>(r.after[0])].op.kind == PlayOp::Kind::compute &&
                         merged[static_cast<std::size_t>(r.after[0])].op.stream == r.op.stream &&
                         merged[static_cast<std::size_t>(r.after[0])].op.step == r.op.step &&
                         r.after[0] + 1 == static_cast<std::int32_t>(merged.size());
      if (!joins) {
        const auto first = static_cast<std::int32_t>(parts.size());
        parts.push_back(out_.parts[static_cast<std::size_t>(r.op.first_entry)]);
        r.op.first_entry = first;
        into[i] = static_cast<std::int32_t>(merged.size());
        last_raw_of_[into[i]] = static_cast<std::int32_t>(i);
        merged.push_back(std::move(r));
        continue;
      }
      PlayOp& to = merged.back().op;
      parts.push_back(out_.parts[static_cast<std::size_t>(r.op.first_entry)]);
      join(to, r.op);
      into[i] = r.after[0];
      last_raw_of_[into[i]] = static_cast<std::int32_t>(i);
    }
    raw_ = std::move(merged);
    out_.parts = std::move(parts);
  }

  void join(PlayOp& to, const PlayOp& from) {
    const double total = to.duration + from.duration;
    if (total > 0) {
      to.sm_sensitivity = (to.sm_sensitivity * to.duration + from.sm_sensitivity * from.duration) / total;
      to.hbm_sensitivity = (to.hbm_sensitivity * to.duration + from.hbm_sensitivity * from.duration) / total;
    }
    to.duration = total;
    ++to.entry_count;
    // Sums of equal runs are shared: a pipeline repeats the same run for every microbatch.
    const auto key = std::pair(to.price, from.price);
    const auto [at, fresh] = joined_.try_emplace(key, static_cast<std::int32_t>(out_.breakdowns.size()));
    if (fresh) {
      Breakdown sum = out_.breakdowns[static_cast<std::size_t>(to.price)];
      sum += out_.breakdowns[static_cast<std::size_t>(from.price)];
      out_.breakdowns.push_back(sum);
    }
    to.price = at->second;
  }

  void link() {
    std::vector<std::vector<std::int32_t>> next(raw_.size());
    for (std::size_t i = 0; i < raw_.size(); ++i) {
      raw_[i].op.dependencies = static_cast<std::int32_t>(raw_[i].after.size());
      for (const std::int32_t a : raw_[i].after) next[static_cast<std::size_t>(a)].push_back(static_cast<std::int32_t>(i));
    }
    for (std::size_t i = 0; i < raw_.size(); ++i) {
      PlayOp op = raw_[i].op;
      op.successors = static_cast<std::int32_t>(out_.successors.size());
      op.successor_count = static_cast<std::int32_t>(next[i].size());
      out_.successors.insert(out_.successors.end(), next[i].begin(), next[i].end());
      out_.ops.push_back(op);
    }
  }

  const Program& p_;
  const CostModel& cost_;
  int rank_;
  ExprContext at_;
  const Role& role_;
  CompiledRole out_;
  int step_ = 0;
  std::vector<Raw> raw_;
  std::vector<std::int32_t> last_on_stream_;
  std::vector<std::vector<std::vector<std::int32_t>>> events_;  // Per step and event: the operations it completes with.
  using CallKey = std::pair<int, std::array<int, 6>>;
  std::map<CallKey, int> closed_;
  std::map<int, bool> varies_;
  std::map<int, int> breakdown_of_, calls_;
  std::map<std::int32_t, std::int32_t> last_raw_of_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> joined_;
  std::vector<PricedBody> prices_;
};

}  // namespace

CompiledRole compile_role(const Program& program, const CostModel& cost, int rank, int steps) { return Compiler(program, cost, rank).run(steps); }

}  // namespace rehearse
