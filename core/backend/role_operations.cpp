#include "core/backend/role_operations.hpp"

#include <algorithm>
#include <utility>

namespace rehearse {

RoleOperations::Index RoleOperations::push(PlayOp op, std::vector<Index> after, int step) {
  if (!awaited_.empty()) open_gate(step);
  const auto stream = static_cast<std::size_t>(op.stream);
  Index& last = last_on_stream_[stream];
  if (last >= 0) after.push_back(last);
  if (gate_of_stream_[stream] != gate_) after.push_back(gate_of_stream_[stream] = gate_);
  std::sort(after.begin(), after.end());
  after.erase(std::unique(after.begin(), after.end()), after.end());
  op.step = step;
  op.cause_streams |= static_cast<std::uint16_t>(1u << static_cast<unsigned>(op.stream));
  last = static_cast<Index>(raw_.size());
  raw_.push_back({op, std::move(after)});
  return last;
}

/// The host's first launch after it waited.
void RoleOperations::open_gate(int step) {
  PlayOp op;
  op.kind = PlayOp::Kind::launch;
  op.category = TimeCategory::launch;
  op.duration = launch_;
  op.step = step;
  for (const Index i : awaited_) op.cause_streams |= cause_streams(i);
  std::sort(awaited_.begin(), awaited_.end());
  awaited_.erase(std::unique(awaited_.begin(), awaited_.end()), awaited_.end());
  gate_ = static_cast<Index>(raw_.size());
  raw_.push_back({op, std::exchange(awaited_, {})});
}

void RoleOperations::finish(CompiledRole& role) {
  merge_runs(role);
  link(role);
}

/// Joins an operation to its only predecessor when that has no other successor and both compute on one stream.
void RoleOperations::merge_runs(CompiledRole& role) {
  const std::size_t n = raw_.size();
  std::vector<std::int32_t> successors(n, 0), into(n);
  std::map<std::int32_t, std::int32_t> last_raw_of;
  for (const Raw& r : raw_)
    for (const std::int32_t a : r.after) ++successors[static_cast<std::size_t>(a)];
  std::vector<Raw> merged;
  std::vector<CompiledRole::Part> parts;
  for (std::size_t i = 0; i < n; ++i) {
    Raw& r = raw_[i];
    for (std::int32_t& a : r.after) a = into[static_cast<std::size_t>(a)];
    const bool joins = r.op.kind == PlayOp::Kind::compute && r.after.size() == 1 && last_raw_of.count(r.after[0]) != 0 &&
                       successors[static_cast<std::size_t>(last_raw_of[r.after[0]])] == 1 &&
                       merged[static_cast<std::size_t>(r.after[0])].op.kind == PlayOp::Kind::compute &&
                       merged[static_cast<std::size_t>(r.after[0])].op.stream == r.op.stream &&
                       merged[static_cast<std::size_t>(r.after[0])].op.step == r.op.step &&
                       r.after[0] + 1 == static_cast<std::int32_t>(merged.size());
    if (!joins) {
      const auto first = static_cast<std::int32_t>(parts.size());
      if (r.op.entry_count > 0) parts.push_back(role.parts[static_cast<std::size_t>(r.op.first_entry)]);
      r.op.first_entry = first;
      into[i] = static_cast<std::int32_t>(merged.size());
      last_raw_of[into[i]] = static_cast<std::int32_t>(i);
      merged.push_back(std::move(r));
      continue;
    }
    PlayOp& to = merged.back().op;
    parts.push_back(role.parts[static_cast<std::size_t>(r.op.first_entry)]);
    join(role, to, r.op);
    into[i] = r.after[0];
    last_raw_of[into[i]] = static_cast<std::int32_t>(i);
  }
  raw_ = std::move(merged);
  role.parts = std::move(parts);
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
  const auto key = std::pair(to.price, from.price);
  const auto [at, fresh] = joined_.try_emplace(key, static_cast<std::int32_t>(role.breakdowns.size()));
  if (fresh) {
    Breakdown sum = role.breakdowns[static_cast<std::size_t>(to.price)];
    sum += role.breakdowns[static_cast<std::size_t>(from.price)];
    role.breakdowns.push_back(sum);
  }
  to.price = at->second;
}

void RoleOperations::link(CompiledRole& role) {
  std::vector<std::vector<std::int32_t>> next(raw_.size());
  for (std::size_t i = 0; i < raw_.size(); ++i) {
    raw_[i].op.dependencies = static_cast<std::int32_t>(raw_[i].after.size());
    for (const std::int32_t a : raw_[i].after) next[static_cast<std::size_t>(a)].push_back(static_cast<std::int32_t>(i));
  }
  for (std::size_t i = 0; i < raw_.size(); ++i) {
    PlayOp op = raw_[i].op;
    op.successors = static_cast<std::int32_t>(role.successors.size());
    op.successor_count = static_cast<std::int32_t>(next[i].size());
    role.successors.insert(role.successors.end(), next[i].begin(), next[i].end());
    role.ops.push_back(op);
  }
}

}  // namespace rehearse
