// Facts of every registered schedule, found by playing its order abstractly: passes take unit times, messages none.

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "core/schedule/schedule.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

namespace {

struct Case { std::string name; std::shared_ptr<const Schedule> schedule; PipelineShape shape; };

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
          if (const PipelineShape shape{p, v, m}; runs(*entry.value, shape)) out.push_back({entry.name, entry.value, shape});
  return out;
}

std::string text(const Case& c) {
  return c.name + " p=" + std::to_string(c.shape.stages) + " v=" + std::to_string(c.shape.virtual_stages) + " m=" + std::to_string(c.shape.microbatches);
}

bool is_backward(Pass pass) { return pass == Pass::backward || pass == Pass::backward_input; }

struct Times { int forward, backward, input, weight; };
int duration(Pass pass, const Times& t) {
  switch (pass) {
    case Pass::forward: return t.forward;
    case Pass::backward: return t.backward;
    case Pass::backward_input: return t.input;
    case Pass::backward_weight: return t.weight;
  }
  return 0;
}

using Key = std::tuple<Pass, int, int>;  // pass, chunk, microbatch; input and full backward are one

Key key(Pass pass, int chunk, int microbatch) { return {is_backward(pass) ? Pass::backward : pass, chunk, microbatch}; }

/// What must have finished before a slot starts.
std::vector<Key> needs(const Slot& s, int chunks) {
  if (s.pass == Pass::backward_weight) return {key(Pass::backward, s.chunk, s.microbatch)};
  if (s.pass == Pass::forward) return s.chunk == 0 ? std::vector<Key>{} : std::vector{key(Pass::forward, s.chunk - 1, s.microbatch)};
  std::vector<Key> out{key(Pass::forward, s.chunk, s.microbatch)};
  if (s.chunk + 1 < chunks) out.push_back(key(Pass::backward, s.chunk + 1, s.microbatch));
  return out;
}

/// Makespan, or -1 where the stages wait for each other.
int play(const Case& c, const Times& times) {
  const int chunks = c.shape.stages * c.shape.virtual_stages;
  std::vector<std::vector<Slot>> order;
  for (int s = 0; s < c.shape.stages; ++s) order.push_back(c.schedule->order(s, c.shape));
  std::vector<std::size_t> next(order.size(), 0);
  std::vector<int> free_at(order.size(), 0);
  std::map<Key, int> done;
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = 0; s < order.size(); ++s)
      while (next[s] < order[s].size()) {
        const Slot& slot = order[s][next[s]];
        int start = free_at[s];
        bool ready = true;
        for (const Key& k : needs(slot, chunks)) {
          const auto at = done.find(k);
          if (at == done.end()) ready = false;
          else start = std::max(start, at->second);
        }
        if (!ready) break;
        free_at[s] = start + duration(slot.pass, times);
        done[key(slot.pass, slot.chunk, slot.microbatch)] = free_at[s];
        ++next[s];
        moved = true;
      }
  }
  for (std::size_t s = 0; s < order.size(); ++s)
    if (next[s] < order[s].size()) return -1;
  return *std::max_element(free_at.begin(), free_at.end());
}

}  // namespace

TEST_CASE("every chunk passes every microbatch once each way, on the stage that holds it") {
  for (const Case& c : cases()) {
    INFO(text(c));
    const int chunks = c.shape.stages * c.shape.virtual_stages;
    std::map<Key, int> passes;
    for (int s = 0; s < c.shape.stages; ++s)
      for (const Slot& slot : c.schedule->order(s, c.shape)) {
        CHECK(c.schedule->stage_of(slot.chunk, c.shape) == s);
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
        if (slot.pass == Pass::forward) forward.insert({slot.chunk, slot.microbatch});
        else CHECK(forward.count({slot.chunk, slot.microbatch}) == 1);
        // Messages between two stages carry no tag: they must keep this order.
        const auto [at, fresh] = last.try_emplace({slot.pass, slot.chunk}, slot.microbatch);
        CHECK((fresh || at->second < slot.microbatch));
        at->second = slot.microbatch;
      }
    }
  }
}

TEST_CASE("no schedule deadlocks, and its idle share is the bubble it declares") {
  for (const Case& c : cases())
    for (const Times times : {Times{1, 1, 1, 0}, Times{1, 2, 1, 1}, Times{2, 3, 2, 1}}) {
      INFO(text(c) << " backward " << times.backward << "/" << times.forward);
      const int ideal = c.shape.microbatches * c.shape.virtual_stages * (times.forward + times.backward);
      const int makespan = play(c, times);
      REQUIRE(makespan > 0);
      CHECK(static_cast<double>(makespan - ideal) / ideal == Approx(c.schedule->bubble_ratio(c.shape)).margin(1e-12));
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
  CHECK(message("interleaved_1f1b", {4, 2, 6}) == "schedule interleaved_1f1b sends microbatches in groups of pp: microbatches(6) % pp(4) = 2 != 0");
  CHECK(message("interleaved_1f1b", {4, 1, 8}).find("at least two chunks") != std::string::npos);
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
