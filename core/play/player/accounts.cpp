#include "core/play/player/accounts.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/program/body.hpp"

namespace rehearse {

Accounts::Accounts(const Program& program, const Cast& cast, std::vector<std::vector<TracedRank>> traced,
                   const RunOptions& options, TraceSink& sink, OperationStates& states)
    : p_(program),
      cast_(cast),
      traced_(std::move(traced)),
      steps_(options.steps),
      last_step_(options.steps - 1),
      sink_(sink),
      books_(cast.actors.size()),
      ready_(cast.actors.size()),
      begin_(cast.actors.size()),
      states_(states),
      names_(program.bodies.size()) {
  if (program.streams.size() > kMaxStreams) throw std::logic_error("more streams than the books hold");
  std::size_t expected = 0;
  for (std::size_t a = 0; a < cast.actors.size(); ++a) {
    if (traced_[a].empty()) continue;
    for (const TracedRank& rank : traced_[a])
      for (const std::int32_t c : rank.channels)
        messages_.resize(std::max(messages_.size(), static_cast<std::size_t>(c) + 1));
    const std::vector<PlayOp>& ops = nth(cast.compiled, cast.actors[a].compiled).ops;
    ready_[a].assign(ops.size(), 0.0);
    begin_[a].assign(ops.size(), 0.0);
    for (const PlayOp& op : ops) {
      if (op.step != last_step_ || op.kind == PlayOp::Kind::launch) continue;
      // Communication, and the wait before it.
      const std::int32_t spans = op.kind == PlayOp::Kind::compute ? op.entry_count : 2;
      expected += traced_[a].size() * static_cast<std::size_t>(spans);
    }
  }
  sink_.expect(expected);
}

const CompiledRole& Accounts::compiled(std::int32_t actor) const {
  return nth(cast_.compiled, nth(cast_.actors, actor).compiled);
}

const PlayOp& Accounts::op_at(std::int32_t actor, std::int32_t index) const { return nth(compiled(actor).ops, index); }

double Accounts::active(const Books& b, int stream, double now) const {
  const auto s = static_cast<std::size_t>(stream);
  return b.active[s] + (b.running[s] > 0 ? now - b.active_since[s] : 0.0);
}

void Accounts::ready(std::int32_t actor, std::int32_t index, double now) {
  const auto a = static_cast<std::size_t>(actor), i = static_cast<std::size_t>(index);
  states_.at(actor, index).stage = Stage::ready;
  if (wanted(actor)) ready_[a][i] = now;
}

/// The compute stream waited from idle_since to now. While a stream that explains the wait was active the time is
/// exposed communication of that stream, the rest is bubble.
void Accounts::close_gap(Books& b, double now, const PlayOp* cause) {
  double gap = now - b.idle_since;
  if (gap <= 0) return;
  if (cause != nullptr && cause->kind == PlayOp::Kind::launch) {
    const double launching = std::min(gap, cause->duration);
    b.breakdown[TimeCategory::launch] += Seconds{launching};
    gap -= launching;
  }
  // Kernels between calls of a communicator, on its stream, count as waiting for it.
  const auto on_wire = [this](const PlayOp& op) {
    return op.stream != 0 && category_of_stream(p_, op.stream) == TimeCategory::exposed_dp;
  };
  if (cause != nullptr && (cause->kind != PlayOp::Kind::compute || on_wire(*cause))) {
    for (int s = 0; s < static_cast<int>(p_.streams.size()) && gap > 0; ++s) {
      if ((cause->cause_streams >> s & 1) == 0) continue;
      const double moved = std::clamp(active(b, s, now) - nth(b.active_at_idle, s), 0.0, gap);
      b.breakdown[category_of_stream(p_, static_cast<StreamId>(s))] += Seconds{moved};
      gap -= moved;
    }
  }
  b.breakdown[TimeCategory::bubble] += Seconds{gap};
}

void Accounts::begin(std::int32_t actor, std::int32_t index, const PlayOp& op, double now) {
  const auto a = static_cast<std::size_t>(actor), i = static_cast<std::size_t>(index);
  Books& b = books_[a];
  OperationState& state = states_.at(actor, index);
  const std::int32_t by = state.cause;
  if (state.stage != Stage::ready || (by >= 0 && states_.at(actor, by).stage != Stage::done)) ++causality_breaches_;
  state.stage = Stage::begun;
  if (op.kind == PlayOp::Kind::launch) return;
  if (wanted(actor)) begin_[a][i] = now;
  if (op.kind == PlayOp::Kind::compute && op.stream == 0) {
    if (op.step == last_step_) close_gap(b, now, by >= 0 ? &op_at(actor, by) : nullptr);
    b.idle_since = now;
  }
  const auto s = static_cast<std::size_t>(op.stream);
  if (b.running[s]++ == 0) b.active_since[s] = now;
}

void Accounts::end(std::int32_t actor, std::int32_t index, const PlayOp& op, double now) {
  const auto a = static_cast<std::size_t>(actor), i = static_cast<std::size_t>(index);
  Books& b = books_[a];
  states_.at(actor, index).stage = Stage::done;
  if (op.kind == PlayOp::Kind::launch) return;
  const auto s = static_cast<std::size_t>(op.stream);
  if (--b.running[s] == 0) b.active[s] += now - b.active_since[s];
  b.last_end = std::max(b.last_end, now);
  if (op.kind == PlayOp::Kind::compute && op.stream == 0) {
    if (op.step == last_step_) {
      b.breakdown += nth(compiled(actor).breakdowns, op.price);
      b.breakdown[TimeCategory::overlap_slowdown] += Seconds{now - b.idle_since - op.duration};
    }
    b.idle_since = now;
    b.last_compute = index;
    for (int k = 0; k < static_cast<int>(p_.streams.size()); ++k) nth(b.active_at_idle, k) = active(b, k, now);
  } else {
    b.last_other = index;
  }
  if (!wanted(actor) || op.step != last_step_) return;
  if (op.kind == PlayOp::Kind::compute)
    emit_compute(actor, op, begin_[a][i], now);
  else
    emit_communication(actor, op, ready_[a][i], begin_[a][i], now);
}

Span Accounts::span_of(std::int32_t actor, const CompiledRole::Part& part) const {
  const Actor& who = nth(cast_.actors, actor);
  const Entry& e = nth(nth(p_.roles, who.role).step, part.entry);
  const Body& body = nth(p_.bodies, e.body);
  Span span;
  span.rank = who.rank;
  span.layer = e.layer;
  span.chunk = e.chunk;
  if (body.phase != Phase::optimizer) span.microbatch = e.microbatch;
  span.name = name_of_part(e.body, part.task);
  span.backward = body.phase == Phase::input_grad || body.phase == Phase::weight_grad || body.phase == Phase::recompute;
  span.weight_gradients = body.phase == Phase::weight_grad;
  if (part.task < 0) span.body = e.body;
  span.category = body.phase == Phase::optimizer ? TimeCategory::optimizer : TimeCategory::matmul;
  return span;
}

const std::string& Accounts::name_of_part(std::int32_t body, std::int32_t task) const {
  std::vector<std::string>& names = nth(names_, body);
  const auto at = static_cast<std::size_t>(task) + 1;
  if (at >= names.size()) names.resize(at + 1);
  const Body& of = nth(p_.bodies, body);
  if (names[at].empty()) names[at] = task < 0 ? of.name : of.name + "/" + nth(of.graph, task).name;
  return names[at];
}

std::int64_t Accounts::next_message(const TracedRank& rank, const PlayOp& op) {
  const std::size_t end = op.kind == PlayOp::Kind::send ? 0 : 1;
  const auto channel = rank.channels[static_cast<std::size_t>(op.group) * 2 + end];
  const std::int64_t position = nth(messages_, channel)[end]++;
  return position * static_cast<std::int64_t>(messages_.size()) + channel;
}

/// Parts of a merged run share its time in proportion to their own.
void Accounts::emit_compute(std::int32_t actor, const PlayOp& op, double begin, double end) {
  const double stretch = op.duration > 0 ? (end - begin) / op.duration : 0;
  double at = begin;
  for (std::int32_t i = 0; i < op.entry_count; ++i) {
    const CompiledRole::Part& part = nth(compiled(actor).parts, op.first_entry + i);
    Span span = span_of(actor, part);
    span.stream = op.stream;
    span.begin = Seconds{at};
    at = i + 1 == op.entry_count ? end : at + part.duration * stretch;
    span.end = Seconds{at};
    const std::vector<TracedRank>& ranks = nth(traced_, actor);
    for (std::size_t r = 1; r < ranks.size(); ++r) {
      span.rank = ranks[r].rank;
      sink_.span(span);
    }
    span.rank = ranks.front().rank;
    sink_.span(std::move(span));
  }
}

void Accounts::emit_communication(std::int32_t actor, const PlayOp& op, double ready, double begin, double end) {
  Span span = span_of(actor, nth(compiled(actor).parts, op.first_entry));
  span.stream = op.stream;
  span.category = op.category;
  span.bytes = Bytes{op.bytes};
  for (const TracedRank& rank : nth(traced_, actor)) {
    span.rank = rank.rank;
    span.message = -1;
    name_communication(span, rank, actor, op);
    if (begin > ready) {
      Span wait = span;
      wait.kind = SpanKind::wait;
      wait.message = -1;
      wait.category = TimeCategory::bubble;
      wait.begin = Seconds{ready};
      wait.end = Seconds{begin};
      sink_.span(wait);
    }
    span.begin = Seconds{begin};
    span.end = Seconds{end};
    sink_.span(span);
  }
}

void Accounts::name_communication(Span& span, const TracedRank& rank, std::int32_t actor, const PlayOp& op) {
  switch (op.kind) {
    case PlayOp::Kind::collective: {
      span.kind = SpanKind::collective;
      span.group = nth(p_.groups, op.group).name;
      span.collective = name_of(op.collective);
      span.group_size = p_.mesh.group_size(nth(p_.groups, op.group), span.rank, p_.exprs);
      break;
    }
    case PlayOp::Kind::send:
    case PlayOp::Kind::receive: {
      const CompiledRole::Endpoint& end = nth(compiled(actor).endpoints, op.group);
      span.peer = nth(p_.mesh.members(nth(p_.groups, end.group), span.rank, p_.exprs), end.peer);
      span.kind = op.kind == PlayOp::Kind::send ? SpanKind::send : SpanKind::receive;
      span.collective = op.kind == PlayOp::Kind::send ? "send" : "recv";
      span.group = "pp";
      span.group_size = 2;
      span.message = next_message(rank, op);
      break;
    }
    default: span.kind = p_.role_of(op.stream) == StreamRole::storage ? SpanKind::input : SpanKind::copy;
  }
}

void Accounts::close(double begin, double end, RunResult& result) {
  const double period = end - begin;
  double latest = -1;
  for (std::size_t a = 0; a < books_.size(); ++a) {
    Books& b = books_[a];
    // What is left after the last kernel: communication of this rank that the step waits for, then others.
    if (b.last_end > b.idle_since && b.last_other >= 0)
      close_gap(b, b.last_end, &op_at(static_cast<std::int32_t>(a), b.last_other));
    RankMetrics m;
    m.rank = cast_.actors[a].rank;
    m.stands_for = cast_.actors[a].ranks;
    m.role = cast_.actors[a].role;
    m.breakdown = b.breakdown;
    const double missing = period - m.breakdown.total().value();
    Seconds& bubble = m.breakdown[TimeCategory::bubble];
    if (bubble.value() + missing >= 0)
      bubble += Seconds{missing};
    else
      m.breakdown *= period / m.breakdown.total().value();
    for (std::size_t s = 0; s < p_.streams.size(); ++s) m.stream_busy.push_back(Seconds{b.active[s] / steps_});
    const bool later = b.last_end > latest * (1 + 1e-12);
    const bool busier =
        b.last_end >= latest * (1 - 1e-12) && !result.ranks.empty() &&
        m.breakdown[TimeCategory::bubble] < nth(result.ranks, result.slowest).breakdown[TimeCategory::bubble];
    if (later || busier) result.slowest = static_cast<int>(a);
    latest = std::max(latest, b.last_end);
    result.ranks.push_back(std::move(m));
  }
}

void Accounts::check_causality(RunResult& result) const {
  if (causality_breaches_ > 0)
    result.breaches.push_back(
        {"causality", fmt::format("{} operations began before what they depend on had ended", causality_breaches_)});
}

bool Accounts::is_waiting(std::int32_t actor, std::int32_t index) const {
  return states_.at(actor, index).stage == Stage::ready;
}

std::string Accounts::describe(std::int32_t actor, std::int32_t index) const {
  const PlayOp& op = op_at(actor, index);
  if (op.kind == PlayOp::Kind::launch) return "a launch";
  const Span s = span_of(actor, nth(compiled(actor).parts, op.first_entry));
  return fmt::format("{} (block {}, chunk {}, microbatch {}) on stream {}", s.name, s.layer, s.chunk, s.microbatch,
                     nth(p_.streams, op.stream).name);
}

}  // namespace rehearse
