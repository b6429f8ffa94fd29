#include "core/backend/accounts.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

namespace rehearse {

Accounts::Accounts(const Program& program, const Cast& cast, const RunOptions& options, TraceSink& sink)
    : p_(program), cast_(cast), options_(options), sink_(sink), books_(cast.actors.size()), ready_(cast.actors.size()), begin_(cast.actors.size()),
      cause_(cast.actors.size()), state_(cast.actors.size()) {
  if (program.streams.size() > kMaxStreams) throw std::logic_error("more streams than the books hold");
  for (std::size_t a = 0; a < cast.actors.size(); ++a) {
    const std::size_t n = cast.compiled[static_cast<std::size_t>(cast.actors[a].compiled)].ops.size();
    books_[a].wanted = sink.wants(cast.actors[a].rank);
    state_[a].assign(n, 0);
    cause_[a].assign(n, -1);
    if (!books_[a].wanted) continue;
    ready_[a].assign(n, 0.0);
    begin_[a].assign(n, 0.0);
  }
}

const PlayOp& Accounts::op_at(std::int32_t actor, std::int32_t index) const {
  return cast_.compiled[static_cast<std::size_t>(cast_.actors[static_cast<std::size_t>(actor)].compiled)].ops[static_cast<std::size_t>(index)];
}

double Accounts::active(const Books& b, int stream, double now) const {
  const auto s = static_cast<std::size_t>(stream);
  return b.active[s] + (b.running[s] > 0 ? now - b.active_since[s] : 0.0);
}

void Accounts::ready(std::int32_t actor, std::int32_t index, const PlayOp& op, double now) {
  const auto a = static_cast<std::size_t>(actor), i = static_cast<std::size_t>(index);
  state_[a][i] = 1;
  if (books_[a].wanted) ready_[a][i] = now;
  (void)op;
}

void Accounts::caused(std::int32_t actor, std::int32_t index, std::int32_t by) {
  cause_[static_cast<std::size_t>(actor)][static_cast<std::size_t>(index)] = by;
}

/// The compute stream waited from idle_since to now. While a stream that explains the wait was active the time is exposed communication
/// of that stream, the rest is bubble.
void Accounts::close_gap(std::int32_t actor, double now, const PlayOp* cause) {
  Books& b = books_[static_cast<std::size_t>(actor)];
  double gap = now - b.idle_since;
  if (gap <= 0) return;
  if (cause != nullptr && cause->kind != PlayOp::Kind::compute) {
    for (int s = 0; s < static_cast<int>(p_.streams.size()) && gap > 0; ++s) {
      if ((cause->cause_streams >> s & 1) == 0) continue;
      const double moved = std::clamp(active(b, s, now) - b.active_at_idle[static_cast<std::size_t>(s)], 0.0, gap);
      b.breakdown[category_of_stream(p_, static_cast<StreamId>(s))] += Seconds{moved};
      gap -= moved;
    }
  }
  b.breakdown[TimeCategory::bubble] += Seconds{gap};
}

void Accounts::begin(std::int32_t actor, std::int32_t index, const PlayOp& op, double now) {
  const auto a = static_cast<std::size_t>(actor), i = static_cast<std::size_t>(index);
  Books& b = books_[a];
  if (state_[a][i] != 1) ++causality_breaches_;
  if (const std::int32_t by = cause_[a][i]; by >= 0 && state_[a][static_cast<std::size_t>(by)] != 3) ++causality_breaches_;
  state_[a][i] = 2;
  if (b.wanted) begin_[a][i] = now;
  const auto s = static_cast<std::size_t>(op.stream);
  if (op.kind == PlayOp::Kind::compute && op.stream == 0) {
    const std::int32_t by = cause_[a][i];
    close_gap(actor, now, by >= 0 ? &op_at(actor, by) : nullptr);
    b.idle_since = now;
  }
  if (b.running[s]++ == 0) b.active_since[s] = now;
}

void Accounts::end(std::int32_t actor, std::int32_t index, const PlayOp& op, double now) {
  const auto a = static_cast<std::size_t>(actor), i = static_cast<std::size_t>(index);
  Books& b = books_[a];
  state_[a][i] = 3;
  const auto s = static_cast<std::size_t>(op.stream);
  if (--b.running[s] == 0) b.active[s] += now - b.active_since[s];
  b.last_end = std::max(b.last_end, now);
  if (op.kind == PlayOp::Kind::compute && op.stream == 0) {
    const CompiledRole& c = cast_.compiled[static_cast<std::size_t>(cast_.actors[a].compiled)];
    b.breakdown += c.breakdowns[static_cast<std::size_t>(op.price)];
    b.breakdown[TimeCategory::overlap_slowdown] += Seconds{std::max(0.0, now - b.idle_since - op.duration)};
    b.idle_since = now;
    for (int k = 0; k < static_cast<int>(p_.streams.size()); ++k) b.active_at_idle[static_cast<std::size_t>(k)] = active(b, k, now);
  }
  if (!b.wanted) return;
  if (op.kind == PlayOp::Kind::compute) emit_compute(actor, op, begin_[a][i], now);
  else emit_communication(actor, op, {static_cast<float>(ready_[a][i]), 0, 0}, now), (void)0;
  if (op.kind != PlayOp::Kind::compute && begin_[a][i] > ready_[a][i]) {
    Span wait = span_of(actor, c_part(actor, op));
    wait.kind = SpanKind::wait;
    wait.name = "wait";
    wait.stream = op.stream;
    wait.category = TimeCategory::bubble;
    wait.begin = Seconds{ready_[a][i]};
    wait.end = Seconds{begin_[a][i]};
    sink_.span(wait);
  }
}

}  // namespace rehearse
