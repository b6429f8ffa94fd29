#include "core/schedule/timetable.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace rehearse {

namespace {

enum class Half { forward, input, weight };
using Done = std::tuple<Half, int, int>;  // What of which chunk, for which microbatch.

/// What a slot leaves behind for others. Of a backward pass the next stage needs the gradient of the input alone.
Done left_by(const Slot& s) {
  const Half half = s.pass == Pass::forward           ? Half::forward
                    : s.pass == Pass::backward_weight ? Half::weight
                                                      : Half::input;
  return {half, s.chunk, s.microbatch};
}

std::vector<Done> needs(const Slot& s, int chunks) {
  if (s.pass == Pass::backward_weight) return {{Half::input, s.chunk, s.microbatch}};
  if (s.pass == Pass::forward)
    return s.chunk == 0 ? std::vector<Done>{} : std::vector<Done>{{Half::forward, s.chunk - 1, s.microbatch}};
  std::vector<Done> out{{Half::forward, s.chunk, s.microbatch}};
  if (s.chunk + 1 < chunks) out.emplace_back(Half::input, s.chunk + 1, s.microbatch);
  return out;
}

double length_of(Pass pass, const PassTimes& t) {
  switch (pass) {
    case Pass::forward: return t.forward;
    case Pass::backward: return t.backward_input + t.backward_weight;
    case Pass::backward_input: return t.backward_input;
    case Pass::backward_weight: return t.backward_weight;
  }
  return 0;
}

class Clock {
 public:
  Clock(const Schedule& schedule, const PipelineShape& shape, const PassTimes& times)
      : times_(times), chunks_(shape.stages * shape.virtual_stages) {
    for (int s = 0; s < shape.stages; ++s) {
      Stage& stage = stages_.emplace_back();
      for (const Slot& slot : schedule.order(s, shape)) stage.slots.push_back({slot, s, 0, 0});
    }
  }

  std::vector<TimedSlot> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Stage& s : stages_)
        while (s.next < s.slots.size() && advance(s)) moved = true;
    }
    std::vector<TimedSlot> out;
    for (const Stage& s : stages_) out.insert(out.end(), s.slots.begin(), s.slots.end());
    return out;
  }

 private:
  struct Stage {
    std::vector<TimedSlot> slots;
    std::size_t next = 0;
    double free = 0;
  };

  /// The next slot of a stage, and those that are paired with it, if all that they need is there.
  bool advance(Stage& s) {
    std::size_t end = s.next;
    double begin = s.free, length = 0;
    do {
      const Slot& slot = s.slots[end].slot;
      for (const Done& d : needs(slot, chunks_)) {
        const auto at = done_.find(d);
        if (at == done_.end()) return false;
        begin = std::max(begin, at->second);
      }
      length += length_of(slot.pass, times_);
    } while (++end < s.slots.size() && s.slots[end].slot.paired);
    s.free = begin + length;
    for (; s.next < end; ++s.next) {
      TimedSlot& slot = s.slots[s.next];
      slot.begin = begin;
      slot.end = s.free;
      done_[left_by(slot.slot)] = s.free;
    }
    return true;
  }

  PassTimes times_;
  int chunks_;
  std::vector<Stage> stages_;
  std::map<Done, double> done_;
};

}  // namespace

std::vector<TimedSlot> timetable(const Schedule& schedule, const PipelineShape& shape, const PassTimes& times) {
  schedule.check(shape);
  return Clock(schedule, shape, times).run();
}

}  // namespace rehearse
