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
  int kind = 0, stage = 0, at = -1;
  bool until_kernels = false;
};

/// Finds the fullest moment of a stage, pass after pass.
class Course {
 public:
  Course(int kind, int stage, double held) : now_(held) {
    here_.kind = kind;
    here_.stage = stage;
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
void QuickStep::walk_memory(const QuickParts& parts, int kind, const EndSlot& ahead, const EndSlot* back,
                            PassMemoryWalk& walk) {
  static const PassCalls kNone;
  const int p = parts.shape.stages, chunks = p * parts.shape.virtual_stages;
  struct Course {
    const Slot& slot;
    bool forward;
    int pass;  ///< pass_kind()
    const BlockMessage& message;
    const PassCalls& calls;
    const BlockList& blocks;
    std::vector<PassCall>::const_iterator call = calls.all.begin();
    std::size_t run = 0;
    int k = 0, done = 0;
  };
  std::vector<Course> courses;
  const auto remote = [&](const Slot& slot, int other) {
    return slot.pass != Pass::backward_weight && other >= 0 && other < chunks &&
           parts.schedule->stage_of(other, parts.shape, slot.copy) !=
               parts.schedule->stage_of(slot.chunk, parts.shape, slot.copy);
  };
  for (const EndSlot* end : {&ahead, back}) {
    if (end == nullptr) continue;
    const Slot& slot = end->slot;
    const bool forward = slot.pass == Pass::forward;
    const int place = place_of(slot.chunk, slot.copy, parts.shape);
    courses.push_back({slot, forward, parts.blocks->kind_of(slot.pass, end->first), parts.blocks->message(forward),
                       costs_.calls.empty() ? kNone
                                            : costs_.calls_of(kind, place, static_cast<int>(slot.pass), end->first,
                                                              end->last && !forward),
                       nth(lists_, 2 * parts.layout->content_of_chunk(slot.chunk) + (forward ? 0 : 1))});
    if (remote(slot, forward ? slot.chunk - 1 : slot.chunk + 1)) walk.add(courses.back().message.receive);
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
    if (remote(c.slot, c.forward ? c.slot.chunk + 1 : c.slot.chunk - 1)) walk.add(c.message.send);
}

const PassMemory& QuickStep::pass_memory(const QuickParts& parts, int kind, const EndSlot& end) {
  const int place = place_of(end.slot.chunk, end.slot.copy, parts.shape);
  auto& known =
      nth(pass_memories_, ((kind * parts.layout->places() + place) * kPasses + static_cast<int>(end.slot.pass)) * 4 +
                              (end.first ? 2 : 0) + (end.last ? 1 : 0));
  if (known) return *known;
  PassMemoryWalk walk;
  walk_memory(parts, kind, end, nullptr, walk);
  return known.emplace(walk.result());
}

const PassMemory& QuickStep::pair_memory(const QuickParts& parts, int kind, const EndSlot& ahead, const EndSlot& back) {
  const auto ends = [](const EndSlot& s) { return (s.first ? 2 : 0) + (s.last ? 1 : 0); };
  const auto place = [&](const EndSlot& s) { return place_of(s.slot.chunk, s.slot.copy, parts.shape); };
  const auto [at, fresh] = pair_memories_.try_emplace({kind, place(ahead), place(back), 4 * ends(ahead) + ends(back)});
  if (!fresh) return at->second;
  PassMemoryWalk walk;
  walk_memory(parts, kind, ahead, &back, walk);
  return at->second = walk.result();
}

const std::vector<QuickStep::EndSlot>& QuickStep::slots(const QuickParts& parts, const PipelineShape& shape,
                                                        int stage) {
  const auto [at, fresh] =
      slots_.try_emplace({parts.schedule_number, shape.stages, shape.virtual_stages, shape.microbatches, stage});
  if (!fresh) return at->second;
  std::map<std::pair<int, Pass>, std::size_t> last;
  for (const Slot& slot : parts.schedule->order(stage, shape)) {
    const auto [known, first] = last.try_emplace({place_of(slot.chunk, slot.copy, shape), slot.pass});
    known->second = at->second.size();
    at->second.push_back({slot, first, false});
  }
  for (const auto& [kind, index] : last) at->second[index].last = true;
  return at->second;
}

void QuickStep::memory_by_pass(const QuickParts& parts, const MemoryRule& rule, QuickEstimate& out) {
  const auto& stages = parts.mesh->stages();
  lists_.clear();
  for (const ChunkContent& content : parts.layout->contents())
    for (const bool forward : {true, false}) lists_.push_back(parts.blocks->blocks_of(forward, content));
  pair_memories_.clear();
  pass_memories_.assign(stages.size() * static_cast<std::size_t>(parts.layout->places()) * kPasses * 4, {});
  const PipelineShape shape = telling(parts);
  // Of the pass at `i`, which moves on to its second where it is one of a pair.
  const auto memory_at = [&](int kind, const std::vector<EndSlot>& order, std::size_t& i) -> const PassMemory& {
    if (i + 1 == order.size() || !order[i + 1].slot.paired) return pass_memory(parts, kind, order[i]);
    ++i;
    return pair_memory(parts, kind, order[i - 1], order[i]);
  };
  Fullest fullest;
  host_bytes_.clear();
  for (int k = 0; k < static_cast<int>(stages.size()); ++k) {
    const MeshStage& stage = nth(stages, k);
    host_bytes_.push_back(0);
    // Of stages that are alike the first holds most, but where chunks stand in another way or halves wait.
    const bool each = parts.blocks->splits() || !parts.layout->round();
    const int last = each && parts.mesh->alike() && k == 1 ? parts.shape.stages - 2 : stage.role;
    for (int s = stage.role; s <= std::max(last, stage.role); ++s) {
      Course course(k, s, sum(stage.held));
      HostCourse host(stage.host_held);
      const auto add = [&](const PassMemory& pass) {
        course.add(pass);
        host.add(pass);
      };
      const std::vector<EndSlot>& order = slots(parts, shape, s);
      for (std::size_t i = 0; i < order.size(); ++i) add(memory_at(k, order, i));
      add(stage.tail_memory);
      host_bytes_.back() = std::max(host_bytes_.back(), host.bytes());
      if (course.fullest().bytes > fullest.bytes) fullest = course.fullest();
    }
  }
  out.host_fits = parts.mesh->host_fits(host_bytes_);
  const MeshStage& stage = nth(stages, fullest.kind);
  Amounts total = stage.held;
  Amounts leaving{};
  const std::vector<EndSlot>& order = slots(parts, shape, fullest.stage);
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
  out.memory.role = fullest.stage;
  bool ends = false;
  for (int place = 0; place < parts.layout->places(); ++place)
    ends = ends || nth(parts.layout->contents(), parts.layout->content(fullest.stage, place)).last;
  if (ends) {
    out.memory.cached = parts.blocks->cached_at_end();
    out.needed = rule.needed(out.memory);
  }
}

}  // namespace rehearse
