#include "core/backend/compiled_role.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

namespace rehearse {

bool is_closed(const Program& p, const Cluster& cluster, const Body& body, int rank) {
  for (const auto v : boost::make_iterator_range(boost::vertices(body.graph))) {
    const Task& task = body.graph[v];
    if (std::holds_alternative<ComputeTask>(task.kind)) continue;
    const auto* c = std::get_if<CollectiveTask>(&task.kind);
    if (c == nullptr) return false;
    if (p.streams[static_cast<std::size_t>(task.stream)] == "dp") return false;
    const auto members = p.mesh.members(p.groups[static_cast<std::size_t>(c->group)], rank, p.exprs);
    const auto node = [&](int r) { return cluster.node_of(p.device_of_rank[static_cast<std::size_t>(r)]); };
    if (std::any_of(members.begin(), members.end(), [&](int r) { return node(r) != node(rank); })) return false;
  }
  return true;
}

namespace {

class Compiler {
 public:
  Compiler(const Program& p, const CostModel& cost, int rank)
      : p_(p), cost_(cost), rank_(rank), at_(p.mesh.context(rank)), role_(p.roles[static_cast<std::size_t>(p.role_of_rank[static_cast<std::size_t>(rank)])]) {}

  CompiledRole run(int steps) {
    last_on_stream_.assign(p_.streams.size(), -1);
    for (int s = 0; s < steps; ++s) {
      step_ = s;
      previous_events_ = std::move(events_);
      events_.assign(static_cast<std::size_t>(role_.events), {});
      for (std::size_t i = 0; i < role_.step.size(); ++i) add_entry(static_cast<int>(i));
    }
    merge_runs();
    link();
    return std::move(out_);
  }

 private:
  struct Raw { PlayOp op; std::vector<std::int32_t> after; };

  int price_of(const Entry& e) {
    const auto [at, fresh] = closed_.try_emplace(e.body, -1);
    if (!fresh) return at->second;
    const Body& body = p_.bodies[static_cast<std::size_t>(e.body)];
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
    if (p_.exprs.evaluate(e.predicate, at_) == 0) return;
    std::vector<std::int32_t> waits;
    for (std::int32_t w = 0; w < e.wait_count; ++w) {
      const Wait& wait = role_.waits[static_cast<std::size_t>(e.first_wait + w)];
      const auto& events = wait.steps_back == 0 ? events_ : previous_events_;
      if (events.empty()) continue;
      const auto& from = events[static_cast<std::size_t>(wait.event)];
      waits.insert(waits.end(), from.begin(), from.end());
    }
    std::vector<std::int32_t> tails;
    if (const int price = price_of(e); price >= 0) tails = {add_closed(index, e, price, waits)};
    else tails = add_open(index, e, waits);
    if (e.record >= 0) events_[static_cast<std::size_t>(e.record)] = tails;
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

  std::vector<std::int32_t> add_open(int index, const Entry& e, const std::vector<std::int32_t>& waits) {
    const Body& body = p_.bodies[static_cast<std::size_t>(e.body)];
    std::vector<std::int32_t> made;
    std::map<StreamId, bool> first_on_stream;
    std::map<StreamId, std::int32_t> tail;
    for (const auto v : boost::make_iterator_range(boost::vertices(body.graph))) {
      const Task& task = body.graph[v];
      std::vector<std::int32_t> after;
      std::uint16_t causes = 0;
      for (const auto in : boost::make_iterator_range(boost::in_edges(v, body.graph))) {
        const std::int32_t from = made[boost::source(in, body.graph)];
        if (from < 0) continue;
        after.push_back(from);
        causes |= raw_[static_cast<std::size_t>(from)].op.cause_streams;
      }
      if (first_on_stream.emplace(task.stream, true).second) after.insert(after.end(), waits.begin(), waits.end());
      if (p_.exprs.evaluate(task.predicate, at_) == 0) {
        made.push_back(-1);
        continue;
      }
      made.push_back(add_task(index, e, body, task, static_cast<std::int32_t>(v), after, causes));
      if (made.back() >= 0) tail[task.stream] = made.back();
    }
    std::vector<std::int32_t> tails;
    for (const auto& [stream, op] : tail) tails.push_back(op);
    return tails;
  }

  std::int32_t add_task(int index, const Entry& e, const Body& body, const Task& task, std::int32_t v, const std::vector<std::int32_t>& after, std::uint16_t causes) {
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
    (void)e;
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
  std::vector<std::vector<std::int32_t>> events_, previous_events_;
  std::map<int, int> closed_, breakdown_of_, calls_;
  std::map<std::int32_t, std::int32_t> last_raw_of_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> joined_;
  std::vector<PricedBody> prices_;
};

}  // namespace

CompiledRole compile_role(const Program& program, const CostModel& cost, int rank, int steps) { return Compiler(program, cost, rank).run(steps); }

}  // namespace rehearse
