#include "core/play/player/role_operations.hpp"

#include <algorithm>
#include <utility>

namespace rehearse {

namespace {

std::size_t at(RoleOperations::Index i) { return static_cast<std::size_t>(i); }

}  // namespace

RoleOperations::Index RoleOperations::push(PlayOp op, std::span<const Index> after, int step) {
  if (!awaited_.empty()) open_gate(step);
  const auto stream = static_cast<std::size_t>(op.stream);
  op.step = step;
  op.cause_streams |= static_cast<std::uint16_t>(1u << static_cast<unsigned>(op.stream));
  if (const Index last = last_on_stream_[stream]; last >= 0) after_.push_back(last);
  if (gate_of_stream_[stream] != gate_) after_.push_back(gate_of_stream_[stream] = gate_);
  add(op, after);
  return last_on_stream_[stream] = static_cast<Index>(ops_.size()) - 1;
}

/// After `after` and what stands at the end of after_ already.
void RoleOperations::add(const PlayOp& op, std::span<const Index> after) {
  after_.insert(after_.end(), after.begin(), after.end());
  const auto first = after_.begin() + static_cast<std::ptrdiff_t>(ends_.empty() ? 0 : ends_.back());
  std::sort(first, after_.end());
  after_.erase(std::unique(first, after_.end()), after_.end());
  ops_.push_back(op);
  ends_.push_back(after_.size());
}

/// The host's first launch after it waited.
void RoleOperations::open_gate(int step) {
  PlayOp op;
  op.kind = PlayOp::Kind::launch;
  op.category = TimeCategory::launch;
  op.duration = launch_;
  op.step = step;
  for (const Index i : awaited_) op.cause_streams |= cause_streams(i);
  add(op, std::exchange(awaited_, {}));
  gate_ = static_cast<Index>(ops_.size()) - 1;
}

void RoleOperations::finish(CompiledRole& role) {
  merge_runs(role);
  link(role);
  role.ops = std::move(ops_);
}

/// Joins an operation to its only predecessor when that has no other successor and both compute on one stream. In
/// place: no run comes after its parts.
void RoleOperations::merge_runs(CompiledRole& role) {
  const std::size_t n = ops_.size();
  std::vector<Index> successors(n, 0), into(n), last(n);  // last: by operation kept, the last that joined it.
  for (const Index a : after_) ++successors[at(a)];
  std::size_t kept = 0, written = 0, first = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t end = ends_[i];
    for (std::size_t k = first; k < end; ++k) after_[k] = into[at(after_[k])];
    const PlayOp& op = ops_[i];
    const Index to = end - first == 1 ? after_[first] : -1;
    const auto computes_on = [&](const PlayOp& run) {
      return run.kind == PlayOp::Kind::compute && run.stream == op.stream && run.step == op.step;
    };
    if (to >= 0 && at(to) + 1 == kept && op.kind == PlayOp::Kind::compute && computes_on(ops_[at(to)]) &&
        successors[at(last[at(to)])] == 1) {
      join(role, ops_[at(to)], op);
      into[i] = to;
    } else {
      into[i] = static_cast<Index>(kept);
      ops_[kept] = op;
      for (std::size_t k = first; k < end; ++k) after_[written++] = after_[k];
      ends_[kept++] = written;
    }
    last[at(into[i])] = static_cast<Index>(i);
    first = end;
  }
  ops_.resize(kept);
  ends_.resize(kept);
  after_.resize(written);
}

void RoleOperations::join(CompiledRole& role, PlayOp& to, const PlayOp& from) {
  const double total = to.duration + from.duration;
  if (total > 0) {
    to.sm_sensitivity = (to.sm_sensitivity * to.duration + from.sm_sensitivity * from.duration) / total;
    to.hbm_sensitivity = (to.hbm_sensitivity * to.duration + from.hbm_sensitivity * from.duration) / total;
  }
  to.duration = total;
  ++to.entry_count;
  // Sums of equal runs are shared: a pipeline repeats the same run for every microbatch.
  const std::uint64_t key =
      std::uint64_t{static_cast<std::uint32_t>(to.price)} << 32 | static_cast<std::uint32_t>(from.price);
  const auto [sum_at, fresh] = joined_.try_emplace(key, static_cast<Index>(role.breakdowns.size()));
  if (fresh) {
    Breakdown sum = role.breakdowns[at(to.price)];
    sum += role.breakdowns[at(from.price)];
    role.breakdowns.push_back(sum);
  }
  to.price = sum_at->second;
}

void RoleOperations::link(CompiledRole& role) {
  for (const Index a : after_) ++ops_[at(a)].successor_count;
  Index next = 0;
  for (PlayOp& op : ops_) {
    op.successors = next;
    next += std::exchange(op.successor_count, 0);
  }
  role.successors.resize(after_.size());
  std::size_t first = 0;
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    ops_[i].dependencies = static_cast<std::int32_t>(ends_[i] - first);
    for (; first < ends_[i]; ++first) {
      PlayOp& from = ops_[at(after_[first])];
      role.successors[at(from.successors + from.successor_count++)] = static_cast<Index>(i);
    }
  }
}

}  // namespace rehearse
