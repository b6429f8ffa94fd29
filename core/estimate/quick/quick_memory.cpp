// The fullest moment of a step whose passes have calls of their own, or whose chunks differ: what each distinct pass
// does is added up once (pass_memory.hpp), and then pass by pass in the order of the schedule.

#include <algorithm>

#include "core/base/index.hpp"
#include "core/estimate/quick/quick_step.hpp"

namespace rehearse {

namespace {

/// Where most is held: in a pass of a stage, counted in its order, or behind the last one, in its tail; -1 where no
/// more is held than at first.
struct Fullest {
  double bytes = -1;
  int kind = 0, at = -1;
  bool until_kernels = false;
};

/// Finds the fullest moment of a stage, pass after pass.
class Course {
 public:
  Course(int kind, double held) : now_(held) {
    here_.kind = kind;
    here_.bytes = held;
  }
  void add(const PassMemory& pass) {
    look(now_ + leaving_ + pass.until_kernels, true);
    look(now_ + pass.after, false);
    now_ += pass.kept_in_all;
    leaving_ = pass.leaving_in_all;
    ++passes_;
  }
  [[nodiscard]] const Fullest& fullest() const { return here_; }

 private:
  void look(double bytes, bool until_kernels) {
    if (bytes <= here_.bytes) return;
    here_.bytes = bytes;
    here_.at = passes_;
    here_.until_kernels = until_kernels;
  }

  Fullest here_;
  double now_, leaving_ = 0;
  int passes_ = 0;
};

}  // namespace

/// One pass, from its message to its message.
const PassMemory& QuickStep::pass_memory(const QuickParts& parts, int kind, const Slot& slot, int microbatches) {
  const int p = parts.shape.stages, v = parts.shape.virtual_stages, chunks = p * v;
  const bool forward = slot.pass == Pass::forward, first = slot.microbatch == 0,
             last = slot.microbatch + 1 == microbatches;
  const int chunk = slot.chunk / p, direction = forward ? 0 : 1;
  auto& known = nth(pass_memories_, ((kind * v + chunk) * 2 + direction) * 4 + (first ? 2 : 0) + (last ? 1 : 0));
  if (known) return *known;
  const PassKind pass = forward ? PassKind::forward : first ? parts.blocks->first_backward() : PassKind::backward;
  static const PassCalls kNone;
  const PassCalls& calls =
      costs_.calls.empty() ? kNone : costs_.calls_of(kind, chunk, direction, first, last && !forward);
  const BlockMessage& message = parts.blocks->message(forward);
  PassMemoryWalk walk;
  if (p > 1 && (forward ? slot.chunk > 0 : slot.chunk + 1 < chunks)) walk.add(message.receive);
  auto call = calls.all.begin();
  int k = 0;
  for (const auto& [block, times] : nth(lists_, 2 * parts.layout->content(slot.chunk % p, chunk) + direction)) {
    for (int i = 0; i < times; ++i, ++k) {
      for (; call != calls.all.end() && call->at == k && call->behind; ++call) walk.add(call->memory);
      if (forward && block->input_seconds >= 0) walk.add(block->input);
      for (; call != calls.all.end() && call->at == k; ++call) walk.add(call->memory);
      walk.add(nth(block->memory, pass));
    }
  }
  for (; call != calls.all.end(); ++call) walk.add(call->memory);
  if (p > 1 && (forward ? slot.chunk + 1 < chunks : slot.chunk > 0)) walk.add(message.send);
  return known.emplace(walk.result());
}

const std::vector<Slot>& QuickStep::slots(const QuickParts& parts, const PipelineShape& shape, int stage) {
  const auto [at, fresh] =
      slots_.try_emplace({parts.schedule_number, shape.stages, shape.virtual_stages, shape.microbatches, stage});
  if (fresh) at->second = parts.schedule->order(stage, shape);
  return at->second;
}

void QuickStep::memory_by_pass(const QuickParts& parts, const MemoryRule& rule, QuickEstimate& out) {
  const auto& stages = parts.mesh->stages();
  lists_.clear();
  for (const ChunkContent& content : parts.layout->contents())
    for (const bool forward : {true, false}) lists_.push_back(parts.blocks->blocks_of(forward, content));
  pass_memories_.assign(stages.size() * static_cast<std::size_t>(parts.shape.virtual_stages) * 8, {});
  const PipelineShape shape = telling(parts);
  Fullest fullest;
  for (int k = 0; k < static_cast<int>(stages.size()); ++k) {
    const MeshStage& stage = nth(stages, k);
    Course course(k, sum(stage.held));
    for (const Slot& slot : slots(parts, shape, stage.role))
      course.add(pass_memory(parts, k, slot, shape.microbatches));
    course.add(stage.tail_memory);
    if (course.fullest().bytes > fullest.bytes) fullest = course.fullest();
  }
  const MeshStage& stage = nth(stages, fullest.kind);
  Amounts total = stage.held;
  Amounts leaving{};
  const std::vector<Slot>& order = slots(parts, shape, stage.role);
  const auto pass = [&](int i) -> const PassMemory& {
    return i < static_cast<int>(order.size()) ? pass_memory(parts, fullest.kind, nth(order, i), shape.microbatches)
                                              : stage.tail_memory;
  };
  for (int i = 0; i < fullest.at; ++i) {
    add(total, pass(i).kept);
    leaving = pass(i).leaving;
  }
  if (fullest.at >= 0) add(total, fullest.until_kernels ? pass(fullest.at).at_until : pass(fullest.at).at_after);
  if (fullest.until_kernels) add(total, leaving);
  set_memory(stage, total, rule, out);
  if (stage.role + 1 == parts.shape.stages) {
    out.memory.cached = parts.blocks->cached_at_end();
    out.needed = rule.needed(out.memory);
  }
}

}  // namespace rehearse
