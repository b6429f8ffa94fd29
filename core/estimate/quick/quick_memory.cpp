// The fullest moment of a step whose passes have calls of their own: calls and blocks added up one after the other, as
// core/program/liveness.cpp adds up the entries of a whole role.

#include <algorithm>

#include "core/base/index.hpp"
#include "core/estimate/quick/quick_step.hpp"

namespace rehearse {

namespace {

/// Adds calls up, first for the moment at which most is held, then up to that moment by category.
class Course {
 public:
  explicit Course(double held) : now_(held), most_(held) {}
  Course(const Amounts& held, std::int64_t until) : by_category_(held), until_(until) {}

  void add(const MemoryCall& c) {
    if (until_ >= 0) return add_categories(c);
    ++calls_;
    if (now_ + c.peak > most_) {
      most_ = now_ + c.peak;
      at_ = calls_;
    }
    now_ += c.end;
    if (!c.on_compute) {
      beside_ += c.beside;
      return;
    }
    now_ -= c.beside;
    if (!c.has_tasks) return;
    now_ -= beside_;
    beside_ = 0;
  }

  [[nodiscard]] double most() const { return most_; }
  /// The call that holds most, counted from 1; 0 where none holds more than there is at first.
  [[nodiscard]] std::int64_t at() const { return at_; }
  [[nodiscard]] const Amounts& by_category() const { return by_category_; }

 private:
  void add_categories(const MemoryCall& c) {
    if (calls_ == until_) return;
    if (++calls_ == until_) {
      rehearse::add(by_category_, c.curve->at_peak);
      return;
    }
    rehearse::add(by_category_, c.curve->at_end);
    rehearse::add(c.on_compute ? by_category_ : beside_by_category_, negative(c, c.on_compute));
    if (!c.on_compute || !c.has_tasks) return;
    subtract(by_category_, beside_by_category_);
    beside_by_category_ = {};
  }
  static Amounts negative(const MemoryCall& c, bool negate) {
    Amounts out = c.curve->beside;
    if (negate)
      for (double& x : out) x = -x;
    return out;
  }

  double now_ = 0, most_ = 0, beside_ = 0;
  std::int64_t at_ = 0, calls_ = 0;
  Amounts by_category_{}, beside_by_category_{};
  std::int64_t until_ = -1;
};

}  // namespace

/// One pass, from its message to its message.
template <class Adder>
void QuickStep::add_pass(const QuickParts& parts, int kind, const Slot& slot, int microbatches, Adder& course) {
  const int p = parts.shape.stages, chunks = p * parts.shape.virtual_stages;
  const bool forward = slot.pass == Pass::forward, first = slot.microbatch == 0,
             last = slot.microbatch + 1 == microbatches;
  const auto of = chunk_kind(slot.chunk, chunks);
  const PassKind pass = forward ? PassKind::forward : first ? parts.blocks->first_backward() : PassKind::backward;
  const PassCalls& calls = costs_.calls_of(kind, slot.chunk / p, forward ? 0 : 1, first, last && !forward);
  const BlockMessage& message = parts.blocks->message(forward);
  if (p > 1 && (forward ? slot.chunk > 0 : slot.chunk + 1 < chunks)) course.add(message.receive);
  auto call = calls.all.begin();
  int k = 0;
  for (const auto& [block, times] : nth(lists_, 2 * static_cast<int>(of) + (forward ? 0 : 1))) {
    for (int i = 0; i < times; ++i, ++k) {
      for (; call != calls.all.end() && call->at == k && call->behind; ++call) course.add(call->memory);
      if (forward && block->input_seconds >= 0) course.add(block->input);
      for (; call != calls.all.end() && call->at == k; ++call) course.add(call->memory);
      course.add(nth(block->memory, pass));
    }
  }
  for (; call != calls.all.end(); ++call) course.add(call->memory);
  if (p > 1 && (forward ? slot.chunk + 1 < chunks : slot.chunk > 0)) course.add(message.send);
}

template <class Adder>
void QuickStep::add_stage(const QuickParts& parts, int kind, Adder& course) {
  const MeshStage& stage = nth(parts.mesh->stages(), kind);
  PipelineShape shape = parts.shape;
  // Where no more is ever alive with more microbatches, a few rounds show every moment.
  PipelineShape few = shape;
  few.microbatches = std::min(shape.microbatches, 3 * shape.stages);
  if (parts.schedule->chunks_in_flight(0, few) == parts.schedule->chunks_in_flight(0, shape)) shape = few;
  for (const Slot& slot : slots(parts, shape, stage.role)) add_pass(parts, kind, slot, shape.microbatches, course);
  for (const MemoryCall& c : stage.tail_calls) course.add(c);
}

const std::vector<Slot>& QuickStep::slots(const QuickParts& parts, const PipelineShape& shape, int stage) {
  const auto [at, fresh] =
      slots_.try_emplace({parts.schedule_number, shape.stages, shape.virtual_stages, shape.microbatches, stage});
  if (fresh) at->second = parts.schedule->order(stage, shape);
  return at->second;
}

void QuickStep::memory_in_passes(const QuickParts& parts, const MemoryRule& rule, QuickEstimate& out) {
  const auto& stages = parts.mesh->stages();
  for (int k = 0; k < kChunkKinds; ++k)
    for (const bool forward : {true, false})
      nth(lists_, 2 * k + (forward ? 0 : 1)) =
          parts.blocks->blocks_of(forward, static_cast<ChunkKind>(k), parts.layers);
  double fullest = -1;
  int kind = 0;
  std::int64_t at = 0;
  for (int k = 0; k < static_cast<int>(stages.size()); ++k) {
    Course course(sum(nth(stages, k).held));
    add_stage(parts, k, course);
    if (course.most() <= fullest) continue;
    fullest = course.most();
    at = course.at();
    kind = k;
  }
  const MeshStage& stage = nth(stages, kind);
  Course course(stage.held, at);
  if (at > 0) add_stage(parts, kind, course);
  out.memory.role = stage.role;
  out.memory.rank = stage.rank;
  out.memory.cached = stage.role + 1 == parts.shape.stages ? parts.blocks->cached_at_end() : stage.cached;
  out.memory.peak = Bytes{0};
  for (std::size_t i = 0; i < course.by_category().size(); ++i) {
    out.memory.by_category[i] = Bytes{course.by_category()[i]};
    out.memory.peak += Bytes{course.by_category()[i]};
  }
  nth(out.memory.peak_by_space, MemorySpace::device) = out.memory.peak;
  out.needed = rule.needed(out.memory);
  out.capacity = stage.capacity;
}

}  // namespace rehearse
