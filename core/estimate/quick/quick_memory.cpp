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

/// One pass, or two interleaved block by block, from their messages to their messages.
void QuickStep::walk_memory(const QuickParts& parts, int kind, const Slot& ahead, const Slot* back, int microbatches,
                            PassMemoryWalk& walk) {
  static const PassCalls kNone;
  const int p = parts.shape.stages, chunks = p * parts.shape.virtual_stages;
  struct Course {
    const Slot& slot;
    bool forward;
    PassKind pass;
    const BlockMessage& message;
    const PassCalls& calls;
    const BlockList& blocks;
    std::vector<PassCall>::const_iterator call = calls.all.begin();
    std::size_t run = 0;
    int k = 0, done = 0;
  };
  std::vector<Course> courses;
  for (const Slot* slot : {&ahead, back}) {
    if (slot == nullptr) continue;
    const bool forward = slot->pass == Pass::forward, first = slot->microbatch == 0,
               last = slot->microbatch + 1 == microbatches;
    const int chunk = slot->chunk / p, direction = forward ? 0 : 1;
    courses.push_back({*slot, forward,
                       forward ? PassKind::forward
                       : first ? parts.blocks->first_backward()
                               : PassKind::backward,
                       parts.blocks->message(forward),
                       costs_.calls.empty() ? kNone : costs_.calls_of(kind, chunk, direction, first, last && !forward),
                       nth(lists_, 2 * parts.layout->content(slot->chunk % p, chunk) + direction)});
    if (p > 1 && (forward ? slot->chunk > 0 : slot->chunk + 1 < chunks)) walk.add(courses.back().message.receive);
  }
  const auto add_calls = [&](Course& c, bool behind) {
    for (; c.call != c.calls.all.end() && c.call->at == c.k && (c.call->behind || !behind); ++c.call)
      walk.add(c.call->memory);
  };
  const auto left = [](const Course& c) { return c.run < c.blocks.size(); };
  while (std::any_of(courses.begin(), courses.end(), left)) {
    for (Course& c : courses) add_calls(c, true);
    for (Course& c : courses) {
      if (!left(c)) continue;
      const BlockPasses& block = *c.blocks[c.run].first;
      if (c.forward && block.input_seconds >= 0) walk.add(block.input);
      add_calls(c, false);
    }
    for (Course& c : courses) {
      if (!left(c)) continue;
      walk.add(nth(c.blocks[c.run].first->memory, c.pass));
      ++c.k;
      if (++c.done < c.blocks[c.run].second) continue;
      c.done = 0;
      ++c.run;
    }
  }
  for (Course& c : courses)
    for (; c.call != c.calls.all.end(); ++c.call) walk.add(c.call->memory);
  for (const Course& c : courses)
    if (p > 1 && (c.forward ? c.slot.chunk + 1 < chunks : c.slot.chunk > 0)) walk.add(c.message.send);
}

const PassMemory& QuickStep::pass_memory(const QuickParts& parts, int kind, const Slot& slot, int microbatches) {
  const int chunk = slot.chunk / parts.shape.stages, direction = slot.pass == Pass::forward ? 0 : 1;
  const bool first = slot.microbatch == 0, last = slot.microbatch + 1 == microbatches;
  auto& known = nth(pass_memories_, ((kind * parts.shape.virtual_stages + chunk) * 2 + direction) * 4 +
                                        (first ? 2 : 0) + (last ? 1 : 0));
  if (known) return *known;
  PassMemoryWalk walk;
  walk_memory(parts, kind, slot, nullptr, microbatches, walk);
  return known.emplace(walk.result());
}

const PassMemory& QuickStep::pair_memory(const QuickParts& parts, int kind, const Slot& ahead, const Slot& back,
                                         int microbatches) {
  const auto ends = [&](const Slot& s) {
    return (s.microbatch == 0 ? 2 : 0) + (s.microbatch + 1 == microbatches ? 1 : 0);
  };
  const auto [at, fresh] = pair_memories_.try_emplace({kind, ahead.chunk, back.chunk, 4 * ends(ahead) + ends(back)});
  if (!fresh) return at->second;
  PassMemoryWalk walk;
  walk_memory(parts, kind, ahead, &back, microbatches, walk);
  return at->second = walk.result();
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
  pair_memories_.clear();
  pass_memories_.assign(stages.size() * static_cast<std::size_t>(parts.shape.virtual_stages) * 8, {});
  const PipelineShape shape = telling(parts);
  // Of the pass at `i`, which moves on to its second where it is one of a pair.
  const auto memory_at = [&](int kind, const std::vector<Slot>& order, std::size_t& i) -> const PassMemory& {
    if (i + 1 == order.size() || !order[i + 1].paired) return pass_memory(parts, kind, order[i], shape.microbatches);
    ++i;
    return pair_memory(parts, kind, order[i - 1], order[i], shape.microbatches);
  };
  Fullest fullest;
  for (int k = 0; k < static_cast<int>(stages.size()); ++k) {
    const MeshStage& stage = nth(stages, k);
    Course course(k, sum(stage.held));
    const std::vector<Slot>& order = slots(parts, shape, stage.role);
    for (std::size_t i = 0; i < order.size(); ++i) course.add(memory_at(k, order, i));
    course.add(stage.tail_memory);
    if (course.fullest().bytes > fullest.bytes) fullest = course.fullest();
  }
  const MeshStage& stage = nth(stages, fullest.kind);
  Amounts total = stage.held;
  Amounts leaving{};
  const std::vector<Slot>& order = slots(parts, shape, stage.role);
  std::size_t i = 0;
  const auto next = [&]() -> const PassMemory& {
    return i < order.size() ? memory_at(fullest.kind, order, i) : stage.tail_memory;
  };
  for (int passes = 0; passes < fullest.at; ++passes, ++i) {
    const PassMemory& pass = next();
    add(total, pass.kept);
    leaving = pass.leaving;
  }
  if (fullest.at >= 0) {
    const PassMemory& pass = next();
    add(total, fullest.until_kernels ? pass.at_until : pass.at_after);
  }
  if (fullest.until_kernels) add(total, leaving);
  set_memory(stage, total, rule, out);
  if (stage.role + 1 == parts.shape.stages) {
    out.memory.cached = parts.blocks->cached_at_end();
    out.needed = rule.needed(out.memory);
  }
}

}  // namespace rehearse
