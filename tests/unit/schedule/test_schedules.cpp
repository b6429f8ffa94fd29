// Facts of every registered schedule, found by playing its order abstractly: passes take unit times, messages none.

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "core/config/settings/strategy.hpp"
#include "core/schedule/schedule.hpp"
#include "core/schedule/timetable.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

namespace {

struct Case {
  std::string name;
  std::shared_ptr<const Schedule> schedule;
  PipelineShape shape;
};

bool runs(const Schedule& schedule, const PipelineShape& shape) {
  try {
    schedule.check(shape);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Every shape that a registered schedule accepts, up to 8 stages.
std::vector<Case> cases() {
  std::vector<Case> out;
  for (const auto& entry : schedules().entries())
    for (const int p : {1, 2, 3, 4, 8})
      for (const int v : {1, 2, 3})
        for (const int m : {1, 2, 3, 4, 6, 8, 16, 24})
          if (const PipelineShape shape{p, v, m}; runs(*entry.value, shape))
            out.push_back({entry.name, entry.value, shape});
  return out;
}

std::string text(const Case& c) {
  return c.name + " p=" + std::to_string(c.shape.stages) + " v=" + std::to_string(c.shape.virtual_stages) +
         " m=" + std::to_string(c.shape.microbatches);
}

bool is_backward(Pass pass) { return pass == Pass::backward || pass == Pass::backward_input; }

struct Times {
  int forward, input, weight;
};
int duration(Pass pass, const Times& t) {
  switch (pass) {
    case Pass::forward: return t.forward;
    case Pass::backward: return t.input + t.weight;
    case Pass::backward_input: return t.input;
    case Pass::backward_weight: return t.weight;
  }
  return 0;
}
PassTimes pass_times(const Times& t) {
  return {static_cast<double>(t.forward), static_cast<double>(t.input), static_cast<double>(t.weight)};
}

using Key = std::tuple<Pass, int, int>;  // pass, chunk, microbatch; input and full backward are one

Key key(Pass pass, int chunk, int microbatch) { return {is_backward(pass) ? Pass::backward : pass, chunk, microbatch}; }

/// What must have finished before a slot starts.
std::vector<Key> needs(const Slot& s, int chunks) {
  if (s.pass == Pass::backward_weight) return {key(Pass::backward, s.chunk, s.microbatch)};
  if (s.pass == Pass::forward)
    return s.chunk == 0 ? std::vector<Key>{} : std::vector{key(Pass::forward, s.chunk - 1, s.microbatch)};
  std::vector<Key> out{key(Pass::forward, s.chunk, s.microbatch)};
  if (s.chunk + 1 < chunks) out.push_back(key(Pass::backward, s.chunk + 1, s.microbatch));
  return out;
}

struct Played {
  int makespan = -1;  ///< -1 where the stages wait for each other.
  int longest = 0;    ///< Of any stage, from its first pass to its last.
};

/// Every order as groups of slots that begin and end together.
std::vector<std::vector<Slot>> groups(const std::vector<Slot>& order) {
  std::vector<std::vector<Slot>> out;
  for (const Slot& s : order) {
    if (!s.paired) out.emplace_back();
    out.back().push_back(s);
  }
  return out;
}

class Play {
 public:
  Play(const Case& c, const Times& times) : times_(times), chunks_(c.shape.stages * c.shape.virtual_stages) {
    for (int s = 0; s < c.shape.stages; ++s) stages_.push_back({groups(c.schedule->order(s, c.shape))});
  }
  Played run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Stage& s : stages_)
        while (s.next < s.order.size() && advance(s)) moved = true;
    }
    Played out;
    for (const Stage& s : stages_) {
      if (s.next < s.order.size()) return {};
      out.makespan = std::max(out.makespan, s.free);
      out.longest = std::max(out.longest, s.free - s.begin);
    }
    return out;
  }

 private:
  struct Stage {
    std::vector<std::vector<Slot>> order;
    std::size_t next = 0;
    int free = 0, begin = -1;
  };
  bool advance(Stage& s) {
    int start = s.free, length = 0;
    for (const Slot& slot : s.order[s.next]) {
      for (const Key& k : needs(slot, chunks_)) {
        const auto at = done_.find(k);
        if (at == done_.end()) return false;
        start = std::max(start, at->second);
      }
      length += duration(slot.pass, times_);
    }
    if (s.begin < 0) s.begin = start;
    s.free = start + length;
    for (const Slot& slot : s.order[s.next]) done_[key(slot.pass, slot.chunk, slot.microbatch)] = s.free;
    ++s.next;
    return true;
  }

  Times times_;
  int chunks_;
  std::vector<Stage> stages_;
  std::map<Key, int> done_;
};

Played play(const Case& c, const Times& times) { return Play(c, times).run(); }

}  // namespace

TEST_CASE("every chunk passes every microbatch once each way, on the stage that holds it") {
  for (const Case& c : cases()) {
    INFO(text(c));
    const int chunks = c.shape.stages * c.shape.virtual_stages;
    std::map<Key, int> passes;
    for (int s = 0; s < c.shape.stages; ++s)
      for (const Slot& slot : c.schedule->order(s, c.shape)) {
        CHECK(c.schedule->stage_of(slot.chunk, c.shape, slot.copy) == s);
        ++passes[key(slot.pass, slot.chunk, slot.microbatch)];
      }
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (int m = 0; m < c.shape.microbatches; ++m) {
        CHECK(passes[key(Pass::forward, chunk, m)] == 1);
        CHECK(passes[key(Pass::backward, chunk, m)] == 1);
      }
  }
}

TEST_CASE("a chunk goes forward before it goes backward, microbatches of a chunk in order") {
  for (const Case& c : cases()) {
    INFO(text(c));
    for (int s = 0; s < c.shape.stages; ++s) {
      std::set<std::pair<int, int>> forward;
      std::map<std::pair<Pass, int>, int> last;
      for (const Slot& slot : c.schedule->order(s, c.shape)) {
        if (slot.pass == Pass::forward)
          forward.insert({slot.chunk, slot.microbatch});
        else
          CHECK(forward.count({slot.chunk, slot.microbatch}) == 1);
        // Messages between two stages carry no tag: they must keep this order.
        const auto [at, fresh] =
            last.try_emplace({is_backward(slot.pass) ? Pass::backward : slot.pass, slot.chunk}, slot.microbatch);
        CHECK((fresh || at->second < slot.microbatch));
        at->second = slot.microbatch;
      }
    }
  }
}

TEST_CASE("no schedule deadlocks, and its idle share is the bubble it declares") {
  for (const Case& c : cases()) {
    CHECK(c.schedule->states_bubble({}));
    for (const Times times : {Times{1, 1, 0}, Times{1, 1, 1}, Times{2, 2, 1}, Times{1, 2, 1}, Times{2, 3, 1},
                              Times{2, 3, 2}, Times{3, 2, 2}, Times{1, 1, 3}}) {
      INFO(text(c) << " forward " << times.forward << ", input " << times.input << ", weight " << times.weight);
      const int ideal = c.shape.microbatches * c.shape.virtual_stages * (times.forward + times.input + times.weight);
      const int makespan = play(c, times).makespan;
      REQUIRE(makespan >= ideal);
      const auto passes = timetable(*c.schedule, c.shape, pass_times(times));
      CHECK(std::ranges::max(passes, {}, &TimedSlot::end).end == makespan);
      if (!c.schedule->states_bubble(pass_times(times))) continue;
      CHECK(static_cast<double>(makespan - ideal) / ideal ==
            Approx(c.schedule->bubble_ratio(c.shape, pass_times(times))).margin(1e-12));
    }
  }
}

TEST_CASE("a chunk and its copies take turns: every microbatch goes through one copy of all chunks") {
  for (const Case& c : cases()) {
    INFO(text(c));
    std::map<int, std::set<int>> copies;
    for (int s = 0; s < c.shape.stages; ++s)
      for (const Slot& slot : c.schedule->order(s, c.shape)) copies[slot.microbatch].insert(slot.copy);
    for (const auto& [microbatch, used] : copies) {
      CHECK(used.size() == 1);
      CHECK(*used.begin() < c.schedule->copies());
    }
  }
}

TEST_CASE("only schedules that say so split the backward pass, and every input half has its weight half after it") {
  for (const Case& c : cases()) {
    INFO(text(c));
    bool split = false;
    for (int s = 0; s < c.shape.stages; ++s) {
      std::set<std::pair<int, int>> open;
      for (const Slot& slot : c.schedule->order(s, c.shape)) {
        split = split || slot.pass == Pass::backward_input;
        if (slot.pass == Pass::backward_input) CHECK(open.insert({slot.chunk, slot.microbatch}).second);
        if (slot.pass == Pass::backward_weight) CHECK(open.erase({slot.chunk, slot.microbatch}) == 1);
      }
      CHECK(open.empty());
    }
    CHECK(split == c.schedule->splits_backward());
  }
}

TEST_CASE("activations alive never exceed the declared number, and reach it") {
  for (const Case& c : cases()) {
    INFO(text(c));
    for (int s = 0; s < c.shape.stages; ++s) {
      int alive = 0, most = 0;
      for (const Slot& slot : c.schedule->order(s, c.shape)) {
        if (slot.pass == Pass::forward) most = std::max(most, ++alive);
        if (slot.pass == Pass::backward || slot.pass == Pass::backward_weight) --alive;
      }
      CHECK(alive == 0);
      CHECK(most == c.schedule->chunks_in_flight(s, c.shape));
    }
  }
}

TEST_CASE("refusals name the rule and what would satisfy it") {
  const auto message = [](const char* name, PipelineShape shape) {
    try {
      schedules().at(name).value->check(shape);
    } catch (const Error& e) {
      CHECK(e.kind == ErrorKind::usage);
      CHECK_FALSE(e.hint.empty());
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(message("1f1b", {4, 2, 8}) == "schedule 1f1b runs one chunk per stage, not 2");
  CHECK(message("gpipe", {4, 3, 8}) == "schedule gpipe runs one chunk per stage, not 3");
  CHECK(message("interleaved_1f1b", {4, 2, 6}) ==
        "schedule interleaved_1f1b sends microbatches in groups of pp: microbatches(6) % pp(4) = 2 != 0");
  CHECK(message("interleaved_1f1b", {4, 1, 8}).find("at least two chunks") != std::string::npos);
  CHECK(message("zb_h1", {4, 1, 3}) ==
        "schedule zb_h1 fills its bubble with other microbatches' passes: microbatches(3) < pp(4)");
  CHECK(message("zb_v", {4, 1, 8}) == "schedule zb_v folds the model once: two chunks per stage, not 1");
  CHECK(message("zb_v", {4, 2, 6}) == "schedule zb_v starts with 2 pp - 1 = 7 microbatches, and the step has 6");
  CHECK(message("dualpipe", {3, 1, 8}) == "schedule dualpipe mirrors its stages: pp(3) is odd");
  CHECK(message("dualpipe", {4, 1, 9}).find("microbatches(9) is odd") != std::string::npos);
  CHECK(message("dualpipe", {4, 1, 6}).find("microbatches(6) < 2 * pp(4)") != std::string::npos);
  CHECK(message("model_parallel", {4, 2, 8}) == "schedule model_parallel runs one chunk per stage, not 2");
  CHECK(message("interleaved_1f1b", {1, 2, 8}).find("at least two stages") != std::string::npos);
}

TEST_CASE("the bubbles that the papers state") {
  // Narayanan et al. 2021, sec. 2.2: (p-1)/m, and v times less when interleaved.
  CHECK(schedules().at("gpipe").value->bubble_ratio({8, 1, 32}) == Approx(7.0 / 32));
  CHECK(schedules().at("1f1b").value->bubble_ratio({8, 1, 32}) == Approx(7.0 / 32));
  CHECK(schedules().at("interleaved_1f1b").value->bubble_ratio({8, 4, 32}) == Approx(7.0 / 128));
  // GPipe keeps all microbatches alive, 1F1B as many as there are stages ahead.
  CHECK(schedules().at("gpipe").value->chunks_in_flight(0, {8, 1, 32}) == 32);
  CHECK(schedules().at("1f1b").value->chunks_in_flight(0, {8, 1, 32}) == 8);
  CHECK(schedules().at("1f1b").value->chunks_in_flight(7, {8, 1, 32}) == 1);
}

TEST_CASE("zero-bubble schedules idle as Qi et al. say") {
  const PassTimes t{1.0, 1.0, 1.0}, short_weights{4.0, 5.0, 3.0};
  const auto h1 = schedules().at("zb_h1").value;
  // 2023, Table 1: (p-1)(tF + tB - tW) against 1F1B's (p-1)(tF + tB + tW): a third with equal passes.
  CHECK(h1->bubble_ratio({8, 1, 24}, t) == Approx(schedules().at("1f1b").value->bubble_ratio({8, 1, 24}, t) / 3));
  CHECK(h1->bubble_ratio({8, 1, 24}, short_weights) == Approx(7.0 * (4 + 5 - 3) / (24 * 12)));
  for (int stage = 0; stage < 8; ++stage) CHECK(h1->chunks_in_flight(stage, {8, 1, 24}) == 8);
  // ZB-V: no stage idles between its first and its last pass, and none keeps more than 1F1B's first, in chunks of half
  // the size.
  for (const int p : {2, 4, 8}) {
    const Case c{"zb_v", schedules().at("zb_v").value, {p, 2, 3 * p}};
    CHECK(play(c, {1, 1, 1}).longest == 3 * p * 2 * 3);
    for (int stage = 0; stage < p; ++stage)
      CHECK(c.schedule->chunks_in_flight(stage, c.shape) ==
            2 * schedules().at("1f1b").value->chunks_in_flight(0, {p, 1, 3 * p}));
  }
}

TEST_CASE("DualPipe idles and keeps what DeepSeek's report says") {
  // Table 2: bubble (PP/2 - 1)(F&B + B - 3W), activations of PP + 1 microbatches; ZB1P's bubble is (PP - 1)(F + B -
  // 2W), B whole.
  const double f = 4, b = 4 + 3, w = 3;
  const auto dual = schedules().at("dualpipe").value;
  CHECK(dual->bubble_ratio({16, 1, 64}, {f, b - w, w}) * 64 * (f + b) == Approx(7 * ((f + b) + b - 3 * w)));
  CHECK(schedules().at("zb_h1").value->bubble_ratio({16, 1, 64}, {f, b - w, w}) * 64 * (f + b) ==
        Approx(15 * (f + b - 2 * w)));
  CHECK(dual->chunks_in_flight(3, {16, 1, 64}) == 17);
  CHECK(dual->copies() == 2);
}

TEST_CASE("one device at work at a time idles 1 - 1/p, however many microbatches") {
  const auto naive = schedules().at("model_parallel").value;
  for (const int m : {1, 4, 32}) {
    const double idle = naive->bubble_ratio({4, 1, m});
    CHECK(idle / (1 + idle) == Approx(1 - 1.0 / 4));
  }
}

TEST_CASE("a timetable lets no stage do two things at once but what is paired, and nothing begin before it can") {
  for (const Case& c : cases()) {
    INFO(text(c));
    std::map<Key, double> ended;
    std::map<int, double> free;
    const auto passes = timetable(*c.schedule, c.shape, {2, 2, 1});
    for (const TimedSlot& p : passes) {
      CHECK((p.begin >= free[p.stage] || p.slot.paired));
      free[p.stage] = p.end;
      ended[key(p.slot.pass, p.slot.chunk, p.slot.microbatch)] = p.end;
    }
    for (const TimedSlot& p : passes)
      for (const Key& k : needs(p.slot, c.shape.stages * c.shape.virtual_stages)) CHECK(p.begin >= ended.at(k));
  }
}
