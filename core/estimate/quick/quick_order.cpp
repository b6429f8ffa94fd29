#include "core/estimate/quick/quick_order.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "core/base/index.hpp"

namespace rehearse {

namespace {

int messages_of(const PipelineShape& shape) { return 2 * shape.stages * shape.virtual_stages * shape.microbatches; }

/// Passes of one stage with their flags. Messages are numbered as those of `most` microbatches.
std::vector<Visit> visits_of(const Schedule& schedule, int stage, const PipelineShape& shape, int most, bool by_kind) {
  const int chunks = shape.stages * shape.virtual_stages, places = shape.virtual_stages * schedule.copies();
  const bool back = runs_back(schedule, shape);
  const auto number = [&](int direction, int chunk, int microbatch) {
    return (direction * chunks + chunk) * most + microbatch;
  };
  std::vector<Visit> out;
  std::vector<int> final(static_cast<std::size_t>(places), -1);
  std::vector<std::array<int, 4>> last(static_cast<std::size_t>(places), {-1, -1, -1, -1});  // By Pass.
  for (const Slot& s : schedule.order(stage, shape)) {
    Visit v;
    const int place = place_of(s.chunk, s.copy, shape);
    v.stage = static_cast<unsigned short>(stage);
    v.place = static_cast<unsigned short>(place);
    v.content = static_cast<unsigned short>(by_kind ? static_cast<int>(chunk_kind(s.chunk, chunks)) : s.chunk);
    v.pass = static_cast<unsigned char>(s.pass);
    const bool forward = s.pass == Pass::forward;
    const int direction = forward ? 0 : 1, before = forward ? s.chunk - 1 : s.chunk + 1, next = 2 * s.chunk - before;
    const auto remote = [&](int other) {
      if (s.pass == Pass::backward_weight || other < 0 || other >= chunks) return false;
      const int there = schedule.stage_of(other, shape, s.copy);
      if (there != stage && back && (other < s.chunk ? there > stage : stage > there)) v.channel = 2;
      return there != stage;
    };
    if (remote(before)) v.in = number(direction, s.chunk, s.microbatch);
    if (remote(next)) v.out = number(direction, next, s.microbatch);
    v.channel = static_cast<unsigned char>(v.channel + direction);
    int& known = nth(nth(last, place), s.pass);
    if (known < 0) v.flags = forward ? Visit::kFirstForward : Visit::kFirstBackward;
    if (s.paired) v.flags |= Visit::kPaired;
    known = static_cast<int>(out.size());
    if (s.pass == Pass::backward || s.pass == Pass::backward_weight) nth(final, place) = known;
    out.push_back(v);
  }
  for (const int i : final)
    if (i >= 0) nth(out, i).flags |= Visit::kLastBackward;
  for (const auto& of_place : last)
    for (std::size_t pass = 1; pass < of_place.size(); ++pass)
      if (of_place[pass] >= 0) nth(out, of_place[pass]).flags |= Visit::kLast;
  return out;
}

using StageVisits = std::vector<std::vector<Visit>>;

/// How far the stages have come.
struct Progress {
  std::vector<std::size_t> next;  ///< By stage.
  std::vector<char> sent;         ///< By message.
  int sweeps = 0;
};

/// Puts visits in an order, sweep by sweep, as far as they don't wait for others: passes of one sweep do not wait for
/// one another, so that a processor works at several of them at once.
std::vector<Visit> sweep(const StageVisits& stages, Progress& at) {
  std::vector<Visit> out;
  for (std::size_t before = 0;; before = out.size()) {
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const std::size_t next = at.next[s];
      if (next == stages[s].size()) continue;
      const bool both = next + 1 < stages[s].size() && (stages[s][next + 1].flags & Visit::kPaired) != 0;
      const auto ready = [&](const Visit& v) { return v.in < 0 || nth(at.sent, v.in) != 0; };
      if (!ready(stages[s][next]) || (both && !ready(stages[s][next + 1]))) continue;
      at.next[s] += both ? 2 : 1;
      for (std::size_t i = next; i < at.next[s]; ++i) out.push_back(stages[s][i]);
    }
    for (std::size_t i = before; i < out.size(); ++i)
      if (const int message = out[i].out; message >= 0) nth(at.sent, message) = 1;
    if (out.size() == before) return out;
    ++at.sweeps;
  }
}

/// The rest of `stages`, to their ends.
std::vector<Visit> sweep_to_end(const StageVisits& stages, Progress at, int* sweeps = nullptr) {
  std::vector<Visit> out = sweep(stages, at);
  if (sweeps != nullptr) *sweeps = at.sweeps;
  for (std::size_t s = 0; s < stages.size(); ++s)
    if (at.next[s] != stages[s].size()) throw std::logic_error("the schedule waits for itself");
  return out;
}

StageVisits visits_of_stages(const Schedule& schedule, const PipelineShape& shape, int most, bool by_kind) {
  StageVisits out;
  for (int s = 0; s < shape.stages; ++s) out.push_back(visits_of(schedule, s, shape, most, by_kind));
  return out;
}

/// What both begin with.
StageVisits common(const StageVisits& a, const StageVisits& b) {
  StageVisits out;
  for (std::size_t s = 0; s < a.size(); ++s) {
    const auto end = std::mismatch(a[s].begin(), a[s].end(), b[s].begin(), b[s].end()).first;
    out.emplace_back(a[s].begin(), end);
    const bool cut = (end != a[s].end() && (end->flags & Visit::kPaired) != 0) ||
                     (out[s].size() < b[s].size() && (b[s][out[s].size()].flags & Visit::kPaired) != 0);
    if (cut) out[s].pop_back();  // Of a pair.
  }
  return out;
}

}  // namespace

QuickOrder make_order(const Schedule& schedule, const PipelineShape& shape, bool by_kind) {
  QuickOrder out;
  out.messages = messages_of(shape);
  const StageVisits stages = visits_of_stages(schedule, shape, shape.microbatches, by_kind);
  const auto count = static_cast<std::size_t>(out.messages);
  out.visits =
      sweep_to_end(stages, {std::vector<std::size_t>(stages.size(), 0), std::vector<char>(count, 0)}, &out.sweeps);
  return out;
}

ForkedOrder fork_orders(const Schedule& schedule, const PipelineShape& shape, int near, int far, bool by_kind) {
  PipelineShape of_near = shape, of_far = shape;
  of_near.microbatches = near;
  of_far.microbatches = far;
  const StageVisits nears = visits_of_stages(schedule, of_near, far, by_kind),
                    fars = visits_of_stages(schedule, of_far, far, by_kind);
  ForkedOrder out;
  out.messages = messages_of(of_far);
  Progress at{std::vector<std::size_t>(nears.size(), 0), std::vector<char>(static_cast<std::size_t>(out.messages), 0)};
  out.both = sweep(common(nears, fars), at);
  out.near = sweep_to_end(nears, at);
  out.far = sweep_to_end(fars, at);
  return out;
}

std::vector<FullMoment> full_moments(const Schedule& schedule, const PipelineShape& shape, int stage) {
  const int chunks = shape.stages * shape.virtual_stages;
  std::map<std::array<int, 3>, std::vector<FullMoment>> by_pass;
  std::array<int, kChunkKinds> alive{};
  signed char before = -1;
  const auto outdone = [](const FullMoment& a, const FullMoment& b) {
    for (std::size_t k = 0; k < a.alive.size(); ++k)
      if (a.alive[k] > b.alive[k]) return false;
    return true;
  };
  for (const Slot& s : schedule.order(stage, shape)) {
    const auto kind = static_cast<unsigned char>(chunk_kind(s.chunk, chunks));
    const unsigned char direction = s.pass == Pass::forward ? 0 : 1;
    const FullMoment here{direction, kind, before, alive};
    std::vector<FullMoment>& known = by_pass[{direction, kind, before}];
    if (std::none_of(known.begin(), known.end(), [&](const FullMoment& k) { return outdone(here, k); })) {
      std::erase_if(known, [&](const FullMoment& k) { return outdone(k, here); });
      known.push_back(here);
    }
    alive[kind] += direction == 0 ? 1 : -1;
    before = static_cast<signed char>(2 * kind + direction);
  }
  std::vector<FullMoment> out;
  for (const auto& [pass, moments] : by_pass) out.insert(out.end(), moments.begin(), moments.end());
  return out;
}

}  // namespace rehearse
